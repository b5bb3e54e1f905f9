//! Table of all supported commands. For each command, the table contains the name, the number of arguments, and the
//! information that the command `COMMAND` returns.

use self::Flag::{Admin, Fast, NoAuth, Readonly, Write};

/// Property of a command, as `COMMAND INFO` returns it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flag {
    /// The command records or releases something.
    Write,
    /// The command only reads.
    Readonly,
    /// The time of the command does not grow with the amount of stored data.
    Fast,
    /// A client may send the command before it has authenticated.
    NoAuth,
    /// The command is meant for administrators of the server.
    Admin,
}

impl Flag {
    /// Returns the name of this property in Redis.
    pub fn word(self) -> &'static str {
        match self {
            Self::Write => "write",
            Self::Readonly => "readonly",
            Self::Fast => "fast",
            Self::NoAuth => "no_auth",
            Self::Admin => "admin",
        }
    }
}

/// Command without its arguments. The types of requests describe each command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Verb {
    Auth,
    BfAdd,
    BfCard,
    BfExists,
    BfInfo,
    BfInsert,
    BfMAdd,
    BfMExists,
    BfReserve,
    Client,
    Cluster,
    Command,
    Config,
    DbSize,
    Del,
    Discard,
    Echo,
    Eval,
    EvalSha,
    Exec,
    Exists,
    Expire,
    ExpireAt,
    FlushAll,
    FlushDb,
    FsClaim,
    FsConfirm,
    FsInfo,
    FsList,
    FsObserve,
    FsRelease,
    FsTest,
    Get,
    HGet,
    HSetNx,
    Hello,
    Info,
    Module,
    Multi,
    PExpire,
    PExpireAt,
    PSubscribe,
    PUnsubscribe,
    Ping,
    Quit,
    ReadOnly,
    ReadWrite,
    Reset,
    SAdd,
    SIsMember,
    SMIsMember,
    SRem,
    Script,
    Select,
    Set,
    SetNx,
    Subscribe,
    Time,
    Type,
    Unlink,
    Unsubscribe,
    Unwatch,
}

/// Entry of the table of commands.
#[derive(Debug)]
pub struct CommandSpec {
    name: &'static str,
    packed_name: u128,
    verb: Verb,
    arguments_min: usize,
    arguments_max: usize,
    flags: &'static [Flag],
    keys: (i64, i64, i64),
}

impl CommandSpec {
    /// Returns the name of the command, in lower case.
    pub fn name(&self) -> &'static str {
        self.name
    }

    /// Returns the number of the command, which is below [`COMMANDS_MAX`].
    pub fn number(&self) -> usize {
        self.verb as usize
    }

    /// Returns the command.
    pub(crate) fn verb(&self) -> Verb {
        self.verb
    }

    /// Returns the number of arguments including the name, in the form that Redis uses: the exact number, or minus the
    /// minimum number.
    pub fn arity(&self) -> i64 {
        let least = self.arguments_min as i64;
        if self.arguments_min == self.arguments_max { least } else { -least }
    }

    /// Returns whether the command accepts this number of arguments, including the name.
    pub fn takes(&self, arguments: usize) -> bool {
        (self.arguments_min..=self.arguments_max).contains(&arguments)
    }

    /// Returns the properties that `COMMAND INFO` shows.
    pub fn flags(&self) -> &'static [Flag] {
        self.flags
    }

    /// Returns whether the command has this property.
    pub fn has(&self, flag: Flag) -> bool {
        self.flags.contains(&flag)
    }

    /// Returns which arguments of the command are keys, as three numbers: the index of the first key, the index of the
    /// last key, and the step from one key to the next. Index 0 is the command name. The index of the last key is -1 if
    /// the keys extend to the last argument. All three numbers are 0 if the command has no keys.
    pub fn keys(&self) -> (i64, i64, i64) {
        self.keys
    }
}

/// Converts a name to a number in lower case. Numbers compare in the same order as names, so a name is found by
/// comparing numbers.
const fn packed(name: &[u8]) -> Option<u128> {
    if name.len() > 16 {
        return None;
    }
    let mut letters = [0; 16];
    letters.split_at_mut(name.len()).0.copy_from_slice(name);
    letters.make_ascii_lowercase();
    Some(u128::from_be_bytes(letters))
}

/// Returns the command with this name, in upper or lower case.
pub fn find_command(name: &[u8]) -> Option<&'static CommandSpec> {
    let wanted = packed(name)?;
    let found = COMMANDS.binary_search_by_key(&wanted, |command| command.packed_name).ok()?;
    // A name followed by zero bytes has the same number, so the length is compared too.
    COMMANDS.get(found).filter(|command| command.name.len() == name.len())
}

/// The number of arguments has no upper limit except that of [`Limits`](crate::Limits).
const ANY: usize = usize::MAX;
const NO_KEYS: (i64, i64, i64) = (0, 0, 0);
const ONE_KEY: (i64, i64, i64) = (1, 1, 1);
const ALL_KEYS: (i64, i64, i64) = (1, -1, 1);

const fn command(
    name: &'static str,
    verb: Verb,
    (arguments_min, arguments_max): (usize, usize),
    flags: &'static [Flag],
    keys: (i64, i64, i64),
) -> CommandSpec {
    let packed_name = packed(name.as_bytes()).expect("a name of 16 letters at most");
    CommandSpec { name, packed_name, verb, arguments_min, arguments_max, flags, keys }
}

/// Number of commands.
pub const COMMANDS_MAX: usize = 62;

/// All supported commands, sorted by name.
pub static COMMANDS: [CommandSpec; COMMANDS_MAX] = [
    command("auth", Verb::Auth, (2, ANY), &[Fast, NoAuth], NO_KEYS),
    command("bf.add", Verb::BfAdd, (3, 3), &[Write, Fast], ONE_KEY),
    command("bf.card", Verb::BfCard, (2, 2), &[Readonly, Fast], ONE_KEY),
    command("bf.exists", Verb::BfExists, (3, 3), &[Readonly, Fast], ONE_KEY),
    command("bf.info", Verb::BfInfo, (2, 3), &[Readonly, Fast], ONE_KEY),
    command("bf.insert", Verb::BfInsert, (4, ANY), &[Write], ONE_KEY),
    command("bf.madd", Verb::BfMAdd, (3, ANY), &[Write], ONE_KEY),
    command("bf.mexists", Verb::BfMExists, (3, ANY), &[Readonly], ONE_KEY),
    command("bf.reserve", Verb::BfReserve, (4, 7), &[Write, Fast], ONE_KEY),
    command("client", Verb::Client, (2, ANY), &[], NO_KEYS),
    command("cluster", Verb::Cluster, (2, ANY), &[], NO_KEYS),
    command("command", Verb::Command, (1, ANY), &[], NO_KEYS),
    command("config", Verb::Config, (2, ANY), &[Admin], NO_KEYS),
    command("dbsize", Verb::DbSize, (1, 1), &[Readonly, Fast], NO_KEYS),
    command("del", Verb::Del, (2, ANY), &[Write], ALL_KEYS),
    command("discard", Verb::Discard, (1, 1), &[Fast], NO_KEYS),
    command("echo", Verb::Echo, (2, 2), &[Fast], NO_KEYS),
    command("eval", Verb::Eval, (3, ANY), &[], NO_KEYS),
    command("evalsha", Verb::EvalSha, (3, ANY), &[], NO_KEYS),
    command("exec", Verb::Exec, (1, 1), &[], NO_KEYS),
    command("exists", Verb::Exists, (2, ANY), &[Readonly, Fast], ALL_KEYS),
    command("expire", Verb::Expire, (3, 4), &[Write, Fast], ONE_KEY),
    command("expireat", Verb::ExpireAt, (3, 4), &[Write, Fast], ONE_KEY),
    command("flushall", Verb::FlushAll, (1, ANY), &[Write], NO_KEYS),
    command("flushdb", Verb::FlushDb, (1, ANY), &[Write], NO_KEYS),
    command("fs.claim", Verb::FsClaim, (4, ANY), &[Write, Fast], ONE_KEY),
    command("fs.confirm", Verb::FsConfirm, (2, ANY), &[Write, Fast], ONE_KEY),
    command("fs.info", Verb::FsInfo, (2, 2), &[Readonly, Fast], ONE_KEY),
    command("fs.list", Verb::FsList, (1, 1), &[Readonly], NO_KEYS),
    command("fs.observe", Verb::FsObserve, (4, ANY), &[Write], ONE_KEY),
    command("fs.release", Verb::FsRelease, (2, ANY), &[Write, Fast], ONE_KEY),
    command("fs.test", Verb::FsTest, (4, ANY), &[Readonly], ONE_KEY),
    command("get", Verb::Get, (2, 2), &[Readonly, Fast], ONE_KEY),
    command("hello", Verb::Hello, (1, ANY), &[Fast, NoAuth], NO_KEYS),
    command("hget", Verb::HGet, (3, 3), &[Readonly, Fast], ONE_KEY),
    command("hsetnx", Verb::HSetNx, (4, 4), &[Write, Fast], ONE_KEY),
    command("info", Verb::Info, (1, ANY), &[], NO_KEYS),
    command("module", Verb::Module, (2, ANY), &[Admin], NO_KEYS),
    command("multi", Verb::Multi, (1, 1), &[Fast], NO_KEYS),
    command("pexpire", Verb::PExpire, (3, 4), &[Write, Fast], ONE_KEY),
    command("pexpireat", Verb::PExpireAt, (3, 4), &[Write, Fast], ONE_KEY),
    command("ping", Verb::Ping, (1, 2), &[Fast], NO_KEYS),
    command("psubscribe", Verb::PSubscribe, (2, ANY), &[], NO_KEYS),
    command("punsubscribe", Verb::PUnsubscribe, (1, ANY), &[], NO_KEYS),
    command("quit", Verb::Quit, (1, ANY), &[Fast, NoAuth], NO_KEYS),
    command("readonly", Verb::ReadOnly, (1, 1), &[Fast], NO_KEYS),
    command("readwrite", Verb::ReadWrite, (1, 1), &[Fast], NO_KEYS),
    command("reset", Verb::Reset, (1, 1), &[Fast, NoAuth], NO_KEYS),
    command("sadd", Verb::SAdd, (3, ANY), &[Write, Fast], ONE_KEY),
    command("script", Verb::Script, (2, ANY), &[], NO_KEYS),
    command("select", Verb::Select, (2, 2), &[Fast], NO_KEYS),
    command("set", Verb::Set, (3, ANY), &[Write], ONE_KEY),
    command("setnx", Verb::SetNx, (3, 3), &[Write, Fast], ONE_KEY),
    command("sismember", Verb::SIsMember, (3, 3), &[Readonly, Fast], ONE_KEY),
    command("smismember", Verb::SMIsMember, (3, ANY), &[Readonly, Fast], ONE_KEY),
    command("srem", Verb::SRem, (3, ANY), &[Write, Fast], ONE_KEY),
    command("subscribe", Verb::Subscribe, (2, ANY), &[], NO_KEYS),
    command("time", Verb::Time, (1, 1), &[Fast], NO_KEYS),
    command("type", Verb::Type, (2, 2), &[Readonly, Fast], ONE_KEY),
    command("unlink", Verb::Unlink, (2, ANY), &[Write, Fast], ALL_KEYS),
    command("unsubscribe", Verb::Unsubscribe, (1, ANY), &[], NO_KEYS),
    command("unwatch", Verb::Unwatch, (1, 1), &[Fast], NO_KEYS),
];
