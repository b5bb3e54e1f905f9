//! Converts a block of a page to a shell script.
//!
//! The commands of a page stay as they are written, except for the parts that a reader would fill in: ports, host
//! names, and words in upper case. A command that never ends, such as the start of a node, is started in the
//! background.
//!
//! This module does not start processes; it only produces the script.

use super::blocks::{Block, Mark};

/// Beginning of every script, with functions that wait for commands in the background.
const PRELUDE: &str = r#"
await() {
    until grep -q "$2" "$1"; do
        kill -0 "$3" 2>/dev/null || { echo "it has ended: $1" >&2; cat "${1%.*}.out" "${1%.*}.err" >&2; exit 1; }
        sleep 0.05
    done
}
"#;

/// Folders on the pages that only root may create, and their replacements.
const FOLDERS: [(&str, &str); 2] = [("/var/lib/firstseen", "data"), ("/backups/", "backups/")];

/// Host names on the pages. Each host gets ten ports of the test.
const HOSTS: [&str; 3] = ["a.example", "b.example", "c.example"];

/// Returns the script for a block, which may use a hundred ports from `base` on.
pub(crate) fn script(block: &Block, base: u16) -> String {
    let mut before = Vec::new();
    let (mut text, mut left_out) = (block.text.clone(), Vec::new());
    for mark in &block.marks {
        match mark {
            Mark::Before { commands } => before.push(commands.as_str()),
            Mark::NotRunLine { begins, .. } => left_out.push(begins.as_str()),
            Mark::As { file, commands } => {
                text = format!("cat > {file} <<'END_OF_FILE'\n{text}END_OF_FILE\n{commands}\n");
            }
            Mark::NotRun { .. } | Mark::Long { .. } => {}
        }
    }
    let before = before.join("\n");
    let variables: Vec<&str> = before.split_whitespace().filter_map(variable).chain(["PORT"]).collect();
    let text = variables.iter().fold(text, |text, variable| filled_in(&text, variable));
    let commands = [before.as_str(), &text].map(|part| at_ports(part, base)).join("\n");
    let mut script = PRELUDE.to_owned();
    for (number, command) in (0..).zip(commands_of(&commands)) {
        let is_left_out = left_out.iter().any(|begins| command.trim_start().starts_with(begins));
        match is_left_out {
            true => {}
            false if is_endless(&command) => script.push_str(&in_background(&command, number)),
            false => script.push_str(&command),
        }
    }
    script
}

/// Returns the name of the variable that a word sets.
fn variable(word: &str) -> Option<&str> {
    let (name, _) = word.split_once('=')?;
    let is_name = name.len() > 1 && name.chars().all(|letter| letter.is_ascii_uppercase() || letter == '_');
    is_name.then_some(name)
}

/// Replaces each separate `WORD` in `text` by `${WORD}`.
fn filled_in(text: &str, word: &str) -> String {
    let (mut filled, mut rest) = (String::new(), text);
    while let Some(at) = rest.find(word) {
        let (before, after) = (&rest[..at], &rest[at + word.len()..]);
        let is_letter = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '_' | '$' | '{' | '}');
        let stands_alone = !before.ends_with(is_letter) && !after.starts_with(is_letter) && !after.starts_with('=');
        filled.push_str(before);
        filled.push_str(&if stands_alone { format!("${{{word}}}") } else { word.to_owned() });
        rest = after;
    }
    filled + rest
}

/// Replaces host names, and the ports 7400 to 7449 and 7500 to 7549, by ports of the test.
fn at_ports(text: &str, base: u16) -> String {
    let mut text = FOLDERS.iter().fold(text.to_owned(), |text, (from, to)| text.replace(from, to));
    for (index, host) in (0..).zip(HOSTS) {
        for port in 0..10 {
            let here = format!("127.0.0.1:{}", base + 10 * index + port);
            text = text.replace(&format!("{host}:{}", 7400 + port), &here);
        }
    }
    let parts = text.split_inclusive(|letter: char| !letter.is_ascii_digit());
    parts.map(|part| at_port(part, base)).collect()
}

/// Replaces a port of the page in a piece of text, which consists of digits and the text after them.
fn at_port(part: &str, base: u16) -> String {
    let digits = part.trim_end_matches(|letter: char| !letter.is_ascii_digit());
    let port = match digits.parse() {
        Ok(port @ 7400..7450) => base + port - 7400,
        Ok(port @ 7500..7550) => base + 50 + port - 7500,
        _ => return part.to_owned(),
    };
    part.replace(digits, &port.to_string())
}

/// Divides a text into commands. Continued lines, and files that follow `<<`, stay with their command.
fn commands_of(text: &str) -> Vec<String> {
    let (mut commands, mut command, mut is_file) = (Vec::new(), String::new(), false);
    for line in text.lines() {
        command.push_str(line);
        command.push('\n');
        is_file = (is_file || line.contains("<<'END_OF_FILE'")) && line != "END_OF_FILE";
        let goes_on = is_file || line.ends_with('\\') || line.trim_end().ends_with('|');
        if !goes_on {
            commands.push(std::mem::take(&mut command));
        }
    }
    commands.push(command);
    commands
}

/// Returns whether a command runs until it is stopped, so that a reader types it in a separate terminal.
fn is_endless(command: &str) -> bool {
    let command = command.trim_start();
    let is_node = command.starts_with("firstseen node --config") && !command.contains("--check-config");
    is_node || command.starts_with("firstseen up") && !["--detach", "--end"].iter().any(|flag| command.contains(flag))
}

/// Returns a command that runs in the background, with its output in files, and waits until it is ready.
fn in_background(command: &str, number: usize) -> String {
    let start = |command: &str, name: &str| format!("{{\n{command}\n}} >{name}.out 2>{name}.err &\n");
    let name = format!("background{number}");
    if command.trim_start().starts_with("firstseen up") {
        let port = format!("PORT=$(sed -n '/--cluster/{{s/.*--cluster 127.0.0.1:\\([0-9]*\\).*/\\1/p;q}}' {name}.out)");
        return start(command, &name) + &format!("await {name}.out 'firstseen filter create' $!\n{port}\n");
    }
    let files: &[&str] = if command.contains("# on each host") { &["a.toml", "b.toml", "c.toml"] } else { &["a.toml"] };
    let each = files.iter().map(|file| {
        let name = format!("{name}-{file}");
        start(&command.replace("a.toml", file), &name) + &format!("await {name}.err 'node is listening' $!\n")
    });
    each.collect()
}

#[test]
fn a_script_has_the_readers_words_and_ports() {
    let text = "firstseen up --nodes 3   # in a terminal of its own\nfirstseen filter create c --cluster 127.0.0.1:PORT \\\n  \
                --window 1h\ncargo test\nfirstseen cluster join --addr a.example:7400 NEW:7401 --at b.example:7400 $NEW RENEW\n";
    let marks = vec![
        Mark::Before { commands: "NEW=127.0.0.1".to_owned() },
        Mark::NotRunLine { begins: "cargo test".to_owned(), reason: "it".to_owned() },
    ];
    let block = Block { line: 1, language: "sh".to_owned(), text: text.to_owned(), marks, section: 0 };
    let script = script(&block, 20_000);
    assert!(script.contains("} >background1.out 2>background1.err &\nawait background1.out"), "{script}");
    assert!(script.contains("--cluster 127.0.0.1:${PORT} \\\n  --window 1h\n"), "{script}");
    assert!(!script.contains("cargo test"), "{script}");
    let join = "--addr 127.0.0.1:20000 ${NEW}:20001 --at 127.0.0.1:20010 $NEW RENEW";
    assert!(script.contains(join), "{script}");
}
