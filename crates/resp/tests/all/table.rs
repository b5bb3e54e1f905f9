//! Tests of the table of commands: every name is found, and the numbers of arguments are enforced.

use crate::common::{array, read_bytes};
use firstseen_resp::{COMMANDS, Flag, Refusal, find_command};

#[test]
fn names_are_in_order_and_are_found_in_letters_of_any_size() {
    assert!(COMMANDS.iter().map(|command| command.name()).is_sorted_by(|one, next| one < next));
    for command in &COMMANDS {
        let name = command.name();
        assert_eq!(name, name.to_lowercase());
        let mixed: String = name
            .chars()
            .zip([true, false].into_iter().cycle())
            .map(|(letter, large)| if large { letter.to_ascii_uppercase() } else { letter })
            .collect();
        for written in [name, &name.to_uppercase(), &mixed] {
            assert_eq!(find_command(written.as_bytes()).map(|found| found.name()), Some(name), "{written}");
        }
        for other in [format!("{name}x"), format!("{name}\0"), name[1..].to_owned()] {
            let found = find_command(other.as_bytes()).map(|found| found.name());
            assert!(found.is_none() || found == Some(other.as_str()), "{other:?} is taken for {found:?}");
        }
    }
    assert!(find_command(b"").is_none() && find_command(&[b'x'; 17]).is_none());
}

#[test]
fn too_few_or_too_many_arguments_are_told() {
    let mut with_an_end = 0;
    for command in &COMMANDS {
        let counts: Vec<usize> = (1..20).filter(|&count| command.takes(count)).collect();
        let (least, most) = (counts[0], counts[counts.len() - 1]);
        assert_eq!(counts.len(), most - least + 1, "{} takes a range", command.name());
        let is_exact = least == most;
        assert_eq!(command.arity(), if is_exact { least as i64 } else { -(least as i64) }, "{}", command.name());
        let arity_error = |count: usize| {
            let words: Vec<&str> = std::iter::once(command.name()).chain(std::iter::repeat("1")).take(count).collect();
            read_bytes(&array(&words), |request| match request {
                Err(Refusal::WrongArity { subcommand: None, .. }) => request.unwrap_err().to_string(),
                _ => String::new(),
            })
        };
        let text = format!("ERR wrong number of arguments for '{}' command", command.name());
        assert!(least == 1 || arity_error(least - 1) == text, "{text}");
        if most < 19 {
            assert_eq!(arity_error(most + 1), text);
            with_an_end += 1;
        }
    }
    assert!(with_an_end > 20, "{with_an_end}");
}

#[test]
fn what_a_command_tells_of_itself_agrees() {
    for command in &COMMANDS {
        let name = command.name();
        let (first, last, step) = command.keys();
        assert!((first, last, step) == (0, 0, 0) || first == 1 && step == 1 && (last == 1 || last == -1), "{name}");
        assert!(!(command.has(Flag::Write) && command.has(Flag::Readonly)), "{name}");
        assert_eq!(command.has(Flag::NoAuth), ["auth", "hello", "quit", "reset"].contains(&name), "{name}");
        let is_of_keys = command.has(Flag::Write) || command.has(Flag::Readonly);
        let is_of_all = ["dbsize", "flushall", "flushdb", "fs.list"].contains(&name);
        assert_eq!(first == 1, is_of_keys && !is_of_all, "{name}");
        assert!(command.flags().iter().all(|flag| !flag.word().is_empty()));
    }
}
