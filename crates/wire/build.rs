//! Compiles `proto/` without a protoc, and keeps its descriptors for reflection.

use std::path::{Path, PathBuf};
use std::{env, error, fs};

use prost::Message;

/// Messages that carry secrets: what they print is written by hand (`src/proto.rs`).
const SECRET_MESSAGES: [&str; 3] = [
    "firstseen.producer.v1.DescribeFilterReply",
    "firstseen.admin.v1.CreateFilterRequest",
    "firstseen.admin.v1.RestoreFilterRequest",
];

/// What goes between nodes has a codec of its own (`src/frames.rs`).
const FRAMES: &str = "firstseen.peer.v1";

fn main() -> Result<(), Box<dyn error::Error>> {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR")?).join("../../proto");
    println!("cargo:rerun-if-changed={}", root.display());
    let files =
        ["producer", "peer", "meta", "admin"].map(|name| root.join(format!("firstseen/{name}/v1/{name}.proto")));
    let descriptors = protox::compile(files, [root])?;
    let out = PathBuf::from(env::var("OUT_DIR")?);
    // With descriptors that are already there the generator does not write them.
    fs::write(out.join("firstseen_descriptors.bin"), descriptors.encode_to_vec())?;
    let mut frames = descriptors.clone();
    frames.file.retain(|file| file.package() == FRAMES);
    tonic_prost_build::configure().bytes(".").skip_debug(SECRET_MESSAGES).compile_fds(descriptors)?;
    // A frame that is no protobuf ends neither its stream nor, sent again, the link: so it is generated once more.
    tonic_prost_build::configure().bytes(".").codec_path("crate::frames::FrameCodec").compile_fds(frames)?;
    Ok(())
}
