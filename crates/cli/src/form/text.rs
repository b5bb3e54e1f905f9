//! Records that are written as text.

use firstseen_records::Block;

use super::{Form, Reading};
use crate::flags::input::InputArgs;
use crate::input::text::TextFiles;
use crate::output::{Earlier, FileOutput, Target};

/// Text in files and streams.
pub(crate) struct Text;

impl Form for Text {
    type Records = Block;
    type Input = TextFiles;
    type Output = FileOutput;

    const APPENDS: bool = true;

    fn key_identity(&self, flags: &InputArgs) -> String {
        flags.key_identity()
    }

    fn input(&mut self, flags: &InputArgs, reading: &Reading) -> anyhow::Result<TextFiles> {
        let mut parser = flags.parser(reading.times, reading.secret.clone())?;
        if let Some(time_ms) = reading.last_time_ms {
            parser.continue_from(time_ms);
        }
        flags.text_files(parser)
    }

    fn output(&self, flags: &InputArgs, to: Target<'_>, earlier: Earlier) -> anyhow::Result<FileOutput> {
        Ok(FileOutput::to_target(to, earlier)?.with_record_end(flags.record_end()?))
    }

    fn lines(&self, _: &InputArgs, to: Target<'_>, earlier: Earlier) -> anyhow::Result<FileOutput> {
        Ok(FileOutput::to_target(to, earlier.without_quotes())?.without_header())
    }
}
