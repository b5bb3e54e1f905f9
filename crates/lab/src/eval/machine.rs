//! Short description of this machine. Facts that cannot be determined are left out.

use std::fs;

/// Returns a description of this machine: the operating system and the processor architecture for which this program
/// was built, and the number of available cores. On Linux, the name of the processor is added if the system provides
/// it.
pub(super) fn described() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plain = format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH);
    match fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(processor) {
        Some(name) => format!("{plain} of {name}"),
        None => plain,
    }
}

/// Returns the name of the first processor, with single spaces between its words.
pub(crate) fn processor(cpuinfo: &str) -> Option<String> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let name = fields.filter(|(field, _)| field.trim() == "model name").map(|(_, name)| name).next()?;
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_where_the_system_has_its_name() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some  Processor @ 2.00GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(processor(cpuinfo).as_deref(), Some("Some Processor @ 2.00GHz"));
        assert_eq!(processor("processor\t: 0\nBogoMIPS\t: 50.00\nmodel name\t:\n"), None);
        assert!(described().contains("cores"));
    }
}
