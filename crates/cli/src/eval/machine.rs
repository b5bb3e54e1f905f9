//! What machine this is, in a few words.
//!
//! Promises: what cannot be found out is left out. Must not know: what is measured.

use std::fs;

/// The system and processor that this was built for, the cores that it was given, and what the processor calls itself
/// where the system tells (Linux).
pub(super) fn described() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let plain = format!("{} {}, {cores} cores", std::env::consts::OS, std::env::consts::ARCH);
    match fs::read_to_string("/proc/cpuinfo").ok().as_deref().and_then(processor) {
        Some(name) => format!("{plain} of {name}"),
        None => plain,
    }
}

/// The name of the first processor, its words apart by one space each.
fn processor(cpuinfo: &str) -> Option<String> {
    let fields = cpuinfo.lines().filter_map(|line| line.split_once(':'));
    let name = fields.filter(|(field, _)| field.trim() == "model name").map(|(_, name)| name).next()?;
    let name = name.split_whitespace().collect::<Vec<_>>().join(" ");
    (!name.is_empty()).then_some(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_processor_is_named_where_the_system_tells() {
        let told = "processor\t: 0\nmodel name\t: Some  Processor @ 2.00GHz\nprocessor\t: 1\nmodel name\t: Other\n";
        assert_eq!(processor(told).as_deref(), Some("Some Processor @ 2.00GHz"));
        assert_eq!(processor("processor\t: 0\nBogoMIPS\t: 50.00\nmodel name\t:\n"), None);
        assert!(described().contains("cores"));
    }
}
