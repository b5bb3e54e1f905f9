//! A description of this machine, in a few words.
//!
//! Promises: facts that cannot be found out are left out. Must not know: what is measured.

use std::fs;

/// The system and processor that this program was built for, the cores that it was given, and the name of the processor
/// where the system has it in a file (Linux).
pub(super) fn described() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plain = format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH);
    match fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(processor) {
        Some(name) => format!("{plain} of {name}"),
        None => plain,
    }
}

/// The name of the first processor, its words apart by one space each.
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
