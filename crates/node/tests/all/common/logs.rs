//! The sample logs as streams of digests with their times.

use std::fs::File;
use std::path::Path;

use firstseen_filter::{Digest, FilterSecret};
use firstseen_records::RecordParser;
use firstseen_records::{Block, BlockOptions, BlockReader, Decompressed, ParsedBlock, ParserConfig, RecordFormat};

/// The events of a log.
pub struct Log {
    pub digests: Vec<Digest>,
    pub times_ms: Vec<u64>,
}

/// Returns all logs with their names.
pub fn all(secret: &FilterSecret) -> [(&'static str, Log); 3] {
    [("apache", apache(secret)), ("nasa", nasa(secret)), ("outlinks", outlinks(secret))]
}

/// Returns the requests to a web server over four days. The key consists of host and request.
pub fn apache(secret: &FilterSecret) -> Log {
    let config = ParserConfig { time: Some("time".to_owned()), ..ParserConfig::new(RecordFormat::Clf) };
    read("apache_logs.gz", config, secret)
}

/// Returns the requests of one day. The key consists of host and URL.
pub fn nasa(secret: &FilterSecret) -> Log {
    let (key, time) = (["host", "url"].map(str::to_owned).to_vec(), Some("time".to_owned()));
    read("nasa_19950801.tsv.gz", ParserConfig { key, time, ..ParserConfig::new(RecordFormat::Tsv) }, secret)
}

/// Returns the links of a crawl. The key is the address of the link.
pub fn outlinks(secret: &FilterSecret) -> Log {
    let (key, time) = (vec!["2".to_owned()], Some("1".to_owned()));
    let config = ParserConfig { key, time, no_header: true, ..ParserConfig::new(RecordFormat::Tsv) };
    read("outlinks_20080430.tsv.gz", config, secret)
}

fn read(name: &str, config: ParserConfig, secret: &FilterSecret) -> Log {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/data").join(name);
    let file = Decompressed::new(File::open(path).expect("a sample log")).expect("a log that is whole");
    let mut blocks = BlockReader::new(file, BlockOptions::for_format(config.format));
    let mut parser = RecordParser::new(config, secret.clone()).expect("fields that there are");
    let (mut block, mut parsed) = (Block::default(), ParsedBlock::default());
    let mut log = Log { digests: Vec::new(), times_ms: Vec::new() };
    while blocks.read_block(&mut block).expect("a log that is whole") {
        parser.parse(&block, &mut parsed).expect("fields that there are");
        log.digests.extend_from_slice(parsed.digests());
        log.times_ms.extend(parsed.times_ms().iter().map(|time_ms| u64::try_from(*time_ms).expect("after 1970")));
    }
    assert_eq!(log.digests.len(), log.times_ms.len());
    log
}
