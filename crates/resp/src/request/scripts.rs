//! Scripts that programs are known to send, which are told by their texts: nothing runs them. A script that adds a key is a `SET` with
//! `NX`, and one that deletes a key which has the client's own value is a `DEL` of what the connection has claimed.
//!
//! This module must not depend on what is done with them.

use super::keys::{KeyRequest, SECONDS};
use super::unserved;
use super::words::{check_arity, is};
use crate::refusal::Refusal;
use crate::{Arguments, Command};

/// A command about scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptRequest<'a> {
    /// `EVAL` or `EVALSHA` of a known script: the reply is that of the script.
    Run(KeyRequest<'a>),
    /// `EVALSHA` of another one, which a client then sends by `EVAL`.
    Unknown,
    /// `SCRIPT LOAD` of a known script: the reply is this hash.
    Load {
        /// 40 hexadecimal digits.
        sha1: &'static str,
    },
    /// `SCRIPT EXISTS`: the reply is 1 or 0 for each.
    Exists {
        /// Hashes.
        hashes: Arguments<'a>,
    },
    /// `SCRIPT FLUSH`, after which nothing is different.
    Flush,
}

/// What a known script does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Effect {
    /// Sets `KEYS[1]` for `ARGV[2]` seconds if it is new; replies OK, or nothing.
    AddForSeconds,
    /// Deletes `KEYS[1]` if it has the value `ARGV[1]`; replies 1 or 0.
    DeleteOwn,
}

/// A script with its SHA-1.
struct KnownScript {
    effect: Effect,
    sha1: &'static str,
    text: &'static str,
}

/// The scripts as their programs send them; blanks between words do not count.
const KNOWN: [KnownScript; 4] = [
    // Laravel, `Cache::add`.
    KnownScript {
        effect: Effect::AddForSeconds,
        sha1: "a08c9c69b7c07ae2485190873b90d128a23e502d",
        text: "return redis.call('exists',KEYS[1])<1 and redis.call('setex',KEYS[1],ARGV[2],ARGV[1])",
    },
    // Laravel's locks, and Redis' own page on locks.
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
    // Spring Integration, `RedisLockRegistry`, and others in this form.
    KnownScript {
        effect: Effect::DeleteOwn,
        sha1: "e9f69f2beb755be68b5e456ee2ce9aadfbc4ebf4",
        text: "if redis.call('get', KEYS[1]) == ARGV[1] then return redis.call('del', KEYS[1]) else return 0 end",
    },
];

/// Whether a script is known by this hash.
pub fn is_known_script(sha1: &[u8]) -> bool {
    KNOWN.iter().any(|script| is(sha1, script.sha1))
}

/// `EVAL script keys key... argument...`
pub(super) fn eval<'a>(command: &Command<'a>) -> Result<ScriptRequest<'a>, Refusal<'a>> {
    let arguments = command.arguments();
    let script = KNOWN.iter().find(|script| is_same(arguments.at(0), script.text));
    let script = script.ok_or_else(|| unserved::refusal(command))?;
    run(script.effect, arguments)
}

/// `EVALSHA hash keys key... argument...`
pub(super) fn eval_by_hash(arguments: Arguments<'_>) -> Result<ScriptRequest<'_>, Refusal<'_>> {
    match KNOWN.iter().find(|script| is(arguments.at(0), script.sha1)) {
        Some(script) => run(script.effect, arguments),
        None => Ok(ScriptRequest::Unknown),
    }
}

/// `SCRIPT LOAD`, `EXISTS` or `FLUSH`.
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

/// Whether two scripts have the same words.
fn is_same(text: &[u8], known: &str) -> bool {
    // A text that is much longer has other words, and is not worth looking at.
    text.len() <= 4 * known.len() && letters(text).eq(letters(known.as_bytes()))
}

/// Returns what is left of a script without white space.
fn letters(text: &[u8]) -> impl Iterator<Item = &u8> {
    text.iter().filter(|byte| !byte.is_ascii_whitespace())
}
