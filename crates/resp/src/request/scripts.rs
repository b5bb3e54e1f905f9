//! Lua scripts that well-known programs send. The server has no Lua interpreter. Instead, it recognises these scripts
//! by their text, and executes equivalent commands. A script that adds a key becomes a `SET` with `NX`. A script that
//! deletes a key if the key has the client's own value becomes a `DEL` that releases a claim of the same connection.
//!
//! This module does not depend on what is done with the commands.

use super::keys::{KeyRequest, SECONDS};
use super::unserved;
use super::words::{check_arity, is};
use crate::refusal::Refusal;
use crate::{Arguments, Command};

/// Command about scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRequest<'a> {
    /// `EVAL` or `EVALSHA` of a known script. The reply is that of the script.
    Run(KeyRequest<'a>),
    /// `EVALSHA` of an unknown script. The client then sends the script itself with `EVAL`.
    Unknown,
    /// `SCRIPT LOAD` of a known script. The reply is this hash.
    Load {
        /// Hash of the script, as 40 hexadecimal digits.
        sha1: &'static str,
    },
    /// `SCRIPT EXISTS`, which replies 1 or 0 for each hash.
    Exists {
        /// Hashes of scripts.
        hashes: Arguments<'a>,
    },
    /// `SCRIPT FLUSH`, which has no effect.
    Flush,
}

/// Effect of a known script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Sets `KEYS[1]` for `ARGV[2]` seconds if it is new. Replies OK or null.
    AddForSeconds,
    /// Deletes `KEYS[1]` if it has the value `ARGV[1]`. Replies 1 or 0.
    DeleteOwn,
}

/// Known script with its SHA-1 hash.
struct KnownScript {
    effect: Effect,
    sha1: &'static str,
    text: &'static str,
}

/// Known scripts, as their programs send them. White space is ignored when texts are compared.
const KNOWN: [KnownScript; 4] = [
    // Laravel, `Cache::add`.
    KnownScript {
        effect: Effect::AddForSeconds,
        sha1: "a08c9c69b7c07ae2485190873b90d128a23e502d",
        text: "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])",
    },
    // Laravel's locks, and the page about locks in the Redis documentation.
    KnownScript {
        effect: Effect::DeleteOwn,
        sha1: "647c65a442733a1aa440f99908d249d13b4d6c4a",
        text: "if redis.call(\"get\",KEYS[1]) == ARGV[1] then\n    return redis.call(\"del\",KEYS[1])\nelse\n    return 0\nend",
    },
    // redis-py, `Lock.release`.
    KnownScript {
        effect: Effect::DeleteOwn,
        sha1: "c3f8721cbb97f72bc19e972846bd7aaf91901658",
        text: "
        local token = redis.call('get', KEYS[1])
        if not token or token ~= ARGV[1] then
            return 0
        end
        redis.call('del', KEYS[1])
        return 1
    ",
    },
    // Spring Integration, `RedisLockRegistry`, and other programs with the same text.
    KnownScript {
        effect: Effect::DeleteOwn,
        sha1: "e9f69f2beb755be68b5e456ee2ce9aadfbc4ebf4",
        text: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    },
];

/// Returns whether this is the hash of a known script.
pub fn is_known_script(sha1: &[u8]) -> bool {
    KNOWN.iter().any(|script| is(sha1, script.sha1))
}

/// Parses `EVAL script keys key... argument...`.
pub(super) fn eval<'a>(command: &Command<'a>) -> Result<ScriptRequest<'a>, Refusal<'a>> {
    let arguments = command.arguments();
    let script = KNOWN.iter().find(|script| is_same(arguments.at(0), script.text));
    let script = script.ok_or_else(|| unserved::refusal(command))?;
    run(script.effect, arguments)
}

/// Parses `EVALSHA hash keys key... argument...`.
pub(super) fn eval_by_hash(arguments: Arguments<'_>) -> Result<ScriptRequest<'_>, Refusal<'_>> {
    match KNOWN.iter().find(|script| is(arguments.at(0), script.sha1)) {
        Some(script) => run(script.effect, arguments),
        None => Ok(ScriptRequest::Unknown),
    }
}

/// Parses `SCRIPT LOAD`, `SCRIPT EXISTS` or `SCRIPT FLUSH`.
pub(super) fn script<'a>(command: &Command<'a>) -> Result<ScriptRequest<'a>, Refusal<'a>> {
    let arguments = command.arguments();
    let subcommand = arguments.at(0);
    if is(subcommand, "LOAD") {
        check_arity("script", "load", arguments, 3..=3)?;
        let script = KNOWN.iter().find(|script| is_same(arguments.at(1), script.text));
        return script
            .map(|script| ScriptRequest::Load { sha1: script.sha1 })
            .ok_or_else(|| unserved::refusal(command));
    }
    if is(subcommand, "EXISTS") {
        check_arity("script", "exists", arguments, 3..=usize::MAX)?;
        return Ok(ScriptRequest::Exists { hashes: arguments.from(1) });
    }
    if is(subcommand, "FLUSH") {
        return Ok(ScriptRequest::Flush);
    }
    Err(unserved::refusal(command))
}

fn run(effect: Effect, arguments: Arguments<'_>) -> Result<ScriptRequest<'_>, Refusal<'_>> {
    let expected_arguments = match effect {
        Effect::AddForSeconds => 5,
        Effect::DeleteOwn => 4,
    };
    if arguments.at(1) != b"1" || arguments.len() != expected_arguments {
        return Err(Refusal::BadArgument("ERR this script takes one key, and the arguments that its program sends"));
    }
    let key = arguments.at(2);
    Ok(ScriptRequest::Run(match effect {
        Effect::AddForSeconds => {
            let expiry = SECONDS.read(arguments.at(4), "setex")?;
            KeyRequest::SetIfNew { key, expiry: Some(expiry) }
        }
        Effect::DeleteOwn => KeyRequest::Delete { keys: arguments.from(2).up_to(1) },
    }))
}

/// Returns whether two scripts are equal apart from white space.
fn is_same(text: &[u8], known: &str) -> bool {
    // A text that is much longer cannot be equal, so its length is checked first.
    text.len() <= 4 * known.len() && letters(text).eq(letters(known.as_bytes()))
}

/// Returns the characters of a script without white space.
fn letters(text: &[u8]) -> impl Iterator<Item = &u8> {
    text.iter().filter(|byte| !byte.is_ascii_whitespace())
}
