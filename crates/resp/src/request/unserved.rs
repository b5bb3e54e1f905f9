//! Names of commands that users of Redis and its modules may expect, but that the server does not support. For these
//! commands, the server returns an error that explains the alternative.
//!
//! This module does not depend on the supported commands.

use super::words::is;
use crate::Command;
use crate::refusal::{Refusal, Unserved};

/// Unsupported commands, by the reason why they are not supported.
const NAMES: [(Unserved, &str); 20] = [
    (
        Unserved::StoresValues,
        "append bitcount bitfield bitfield_ro bitop bitpos blmove blmpop blpop brpop brpoplpush bzmpop bzpopmax bzpopmin decr \
         decrby geoadd geodist geohash geopos georadius georadiusbymember geosearch geosearchstore getbit getdel getex getrange getset \
         hdel hexists hgetall hgetdel hgetex hincrby hincrbyfloat hkeys hlen hmget hmset hrandfield hscan hset hsetex \
         hstrlen hvals incr incrby incrbyfloat lcs lindex linsert llen lmove lmpop lpop lpos lpush lpushx lrange lrem lset ltrim \
         mget pfadd pfcount pfmerge rpop rpoplpush rpush rpushx sdiff sdiffstore setbit setrange sinter sintercard sinterstore \
         smove sort sort_ro strlen substr sunion sunionstore xack xadd xautoclaim xclaim xdel xgroup xinfo xlen xpending xrange \
         xread xreadgroup xrevrange xsetid xtrim zadd zcard zcount zdiff zdiffstore zincrby zinter zinterstore zlexcount zmpop \
         zmscore zpopmax zpopmin zrandmember zrange zrangebylex zrangebyscore zrangestore zrank zrem zremrangebylex \
         zremrangebyrank zremrangebyscore zrevrange zrevrangebylex zrevrangebyscore zrevrank zscan zscore zunion zunionstore",
    ),
    (Unserved::Overwrites, "mset psetex setex"),
    (Unserved::SetsTogether, "msetnx"),
    (Unserved::MovesKeys, "copy dump migrate move rename renamenx restore swapdb"),
    (Unserved::ChangesTimes, "persist hexpire hpexpire hexpireat hpexpireat hpersist"),
    (Unserved::TellsTimes, "expiretime httl hpttl pexpiretime pttl ttl"),
    (Unserved::ListsKeys, "keys randomkey scan smembers spop srandmember sscan"),
    (Unserved::CountsEvents, "scard"),
    (Unserved::TouchesKeys, "touch"),
    (Unserved::RunsScripts, "eval eval_ro evalsha evalsha_ro fcall fcall_ro function script"),
    (Unserved::PublishesMessages, "publish pubsub spublish ssubscribe sunsubscribe"),
    (Unserved::ShowsCommands, "monitor"),
    (Unserved::WatchesKeys, "watch"),
    (Unserved::MovesBytes, "bf.debug bf.load bf.loadchunk bf.scandump"),
    (Unserved::ShowsMemory, "debug memory object"),
    (Unserved::NamesUsers, "acl"),
    (Unserved::KeepsLogs, "latency slowlog"),
    (Unserved::SavesItself, "bgrewriteaof bgsave lastsave save"),
    (Unserved::IsCluster, "asking failover psync replconf replicaof role sentinel slaveof sync wait waitaof"),
    (Unserved::StopsNode, "shutdown"),
];

/// Unsupported commands of modules, by the prefix of their names.
const MODULES: [(&str, &str, Unserved); 8] = [
    ("cf.", "cf.*", Unserved::HasCuckoo),
    ("cms.", "cms.*", Unserved::CountsKeys),
    ("topk.", "topk.*", Unserved::CountsKeys),
    ("tdigest.", "tdigest.*", Unserved::CountsKeys),
    ("json.", "json.*", Unserved::StoresValues),
    ("ft.", "ft.*", Unserved::StoresValues),
    ("ts.", "ts.*", Unserved::StoresValues),
    ("graph.", "graph.*", Unserved::StoresValues),
];

/// Unsupported subcommands, by the reason why they are not supported.
const SUBCOMMANDS: [(&str, Unserved, &str); 5] = [
    (
        "client",
        Unserved::ConnectsAlone,
        "caching getredir info kill list pause reply tracking trackinginfo unblock unpause",
    ),
    ("config", Unserved::KeepsSettings, "resetstat rewrite set"),
    ("module", Unserved::HasNoModules, "load loadex unload"),
    ("command", Unserved::TellsTable, "getkeys getkeysandflags"),
    (
        "cluster",
        Unserved::IsCluster,
        "addslots addslotsrange bumpepoch count-failure-reports countkeysinslot delslots delslotsrange failover flushslots forget \
         getkeysinslot keyslot links meet myshardid replicas replicate reset saveconfig set-config-epoch setslot slaves slot-stats",
    ),
];

/// Beginnings of the lines of an HTTP request. Redis also closes a connection that sends such a line.
const HTTP: [&str; 2] = ["post", "host:"];

/// Returns the reason why a command is not supported.
pub(super) fn refusal<'a>(command: &Command<'a>) -> Refusal<'a> {
    let name = command.name();
    if HTTP.iter().any(|line| is(name, line)) {
        return Refusal::HttpRequest;
    }
    for (why, names) in NAMES {
        if let Some(command) = names.split(' ').find(|known| is(name, known)) {
            return Refusal::Unserved { command, why };
        }
    }
    for (prefix, command, why) in MODULES {
        if name.get(..prefix.len()).is_some_and(|begin| is(begin, prefix)) {
            return Refusal::Unserved { command, why };
        }
    }
    Refusal::UnknownCommand(*command)
}

/// Returns the reason why a subcommand is not supported.
pub(super) fn subcommand_refusal<'a>(command: &'static str, subcommand: &'a [u8]) -> Refusal<'a> {
    for (_, why, names) in SUBCOMMANDS.into_iter().filter(|(of, ..)| *of == command) {
        if let Some(known) = names.split(' ').find(|known| is(subcommand, known)) {
            return Refusal::UnservedSubcommand { command, subcommand: known, why };
        }
    }
    Refusal::UnknownSubcommand { command, subcommand }
}
