//! Checks that the generated code in `crates/wire/src/generated` corresponds to the files in `proto/`. The generated
//! code is part of the repository, so that nobody needs a protobuf compiler to build the binary.
//!
//! If this test fails, a file in `proto/` has changed. Run `FIRSTSEEN_GENERATE=1 cargo test -p firstseen-tidy --test
//! all generated` to generate the code again. Commit the generated code together with the change in `proto/`.

use std::path::{Path, PathBuf};
use std::{env, fs};

use firstseen_tidy::root;
use prost::Message;

/// Messages that contain secrets. Their `Debug` implementations are written by hand (`proto.rs`), so that the secrets
/// are not printed.
const SECRET_MESSAGES: [&str; 3] = [
    "firstseen.producer.v1.DescribeFilterReply",
    "firstseen.admin.v1.CreateFilterRequest",
    "firstseen.admin.v1.RestoreFilterRequest",
];

/// Package of the messages between nodes, which have a separate codec (`frames.rs`).
const FRAMES: &str = "firstseen.peer.v1";

#[test]
fn the_generated_code_is_current() {
    let current = tempfile::tempdir().unwrap();
    generate(current.path());
    let kept = root().join("crates/wire/src/generated");
    if env::var_os("FIRSTSEEN_GENERATE").is_some() {
        fs::create_dir_all(&kept).unwrap();
        names(&kept).iter().for_each(|name| fs::remove_file(kept.join(name)).unwrap());
        names(current.path()).iter().for_each(|name| {
            fs::copy(current.path().join(name), kept.join(name)).unwrap();
        });
    }
    assert_eq!(names(&kept), names(current.path()), "the files of {}", kept.display());
    for name in names(&kept) {
        let is_current = fs::read(kept.join(&name)).unwrap() == fs::read(current.path().join(&name)).unwrap();
        assert!(is_current, "{} is not what proto/ says: see the top of {}", name.display(), file!());
    }
}

fn names(folder: &Path) -> Vec<PathBuf> {
    let mut names: Vec<PathBuf> =
        fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().file_name().into()).collect();
    names.sort();
    names
}

/// Compiles `proto/` without `protoc`, and writes the descriptors for reflection.
fn generate(out: &Path) {
    let root = root().join("proto");
    let files =
        ["producer", "peer", "meta", "admin"].map(|name| root.join(format!("firstseen/{name}/v1/{name}.proto")));
    let descriptors = protox::compile(files, [root]).unwrap();
    fs::write(out.join("descriptors.bin"), descriptors.encode_to_vec()).unwrap();
    let mut frames = descriptors.clone();
    frames.file.retain(|file| file.package() == FRAMES);
    let configure = || tonic_prost_build::configure().bytes(".").out_dir(out);
    configure().skip_debug(SECRET_MESSAGES).compile_fds(descriptors).unwrap();
    // The messages between nodes are generated a second time with their own codec. With that codec, a frame that is not
    // valid protobuf does not end its stream, and therefore does not end the link when the frame is sent again.
    configure().codec_path("crate::frames::FrameCodec").compile_fds(frames).unwrap();
}
