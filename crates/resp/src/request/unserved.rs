//! The names of commands that Redis and its modules have, that users would miss, and that are not served. Must not know:
//! those that are served.

use super::words::is;
use crate::Command;
use crate::refusal::{Refusal, Unserved};

/// Of strings, hashes, lists, sorted sets, streams and the like, and of keys that hold these.
const STORE_VALUES: &str = "\
    append bitcount bitfield bitop bitpos blpop brpop copy decr decrby dump expire expireat expiretime geoadd \
    getbit getdel getex getrange getset hdel hexists hget hgetall hincrby hkeys hlen hmget hmset hscan hset \
    hsetnx hvals incr incrby incrbyfloat keys lindex linsert llen lmove lpop lpos lpush lpushx lrange lrem \
    lset ltrim mget move mset msetnx persist pexpire pexpireat pfadd pfcount psetex pttl randomkey rename \
    renamenx restore rpop rpush scan scard sdiff setbit setex setrange sinter smembers smove sort spop \
    srandmember sscan strlen substr sunion touch ttl xadd xread zadd";

/// Those with a reason of their own.
const OTHERS: [(&str, Unserved); 13] = [
    ("bf.debug", Unserved::MovesBytes),
    ("bf.load", Unserved::MovesBytes),
    ("bf.loadchunk", Unserved::MovesBytes),
    ("bf.scandump", Unserved::MovesBytes),
    ("monitor", Unserved::ShowsCommands),
    ("psubscribe", Unserved::PublishesMessages),
    ("publish", Unserved::PublishesMessages),
    ("pubsub", Unserved::PublishesMessages),
    ("punsubscribe", Unserved::PublishesMessages),
    ("ssubscribe", Unserved::PublishesMessages),
    ("subscribe", Unserved::PublishesMessages),
    ("unsubscribe", Unserved::PublishesMessages),
    ("watch", Unserved::WatchesKeys),
];

/// How lines of a request over HTTP begin. Redis, too, closes a connection that sends one.
const HTTP: [&str; 2] = ["post", "host:"];

/// Why a command is not served.
pub(super) fn refusal<'a>(command: &Command<'a>) -> Refusal<'a> {
    let name = command.name();
    if HTTP.iter().any(|line| is(name, line)) {
        return Refusal::HttpRequest;
    }
    let stores = STORE_VALUES.split(' ').find(|known| is(name, known)).map(|known| (known, Unserved::StoresValues));
    let known = stores.or_else(|| OTHERS.iter().find(|(known, _)| is(name, known)).copied());
    known.map_or(Refusal::UnknownCommand(*command), |(command, why)| Refusal::Unserved { command, why })
}
