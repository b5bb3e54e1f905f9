//! Checks that another decoder of the protocol reads the encoded replies as intended, in both versions.

use crate::common::config;
use firstseen_resp::{Protocol, Replies};
use proptest::prelude::*;
use redis_protocol::{resp2, resp3};

#[derive(Clone, Debug)]
enum Reply {
    Simple(String),
    Error(String),
    Integer(i64),
    Bulk(Vec<u8>),
    Null,
    NullArray,
    Boolean(bool),
    Array(Vec<Reply>),
    Map(Vec<Reply>),
}

impl Reply {
    fn write(&self, replies: &mut Replies) {
        match self {
            Self::Simple(text) => replies.simple(text),
            Self::Error(text) => replies.error(text),
            Self::Integer(value) => replies.integer(*value),
            Self::Bulk(bytes) => replies.bulk(bytes),
            Self::Null => replies.null(),
            Self::NullArray => replies.null_array(),
            Self::Boolean(value) => replies.boolean(*value),
            Self::Array(members) => {
                replies.array(members.len());
                members.iter().for_each(|member| member.write(replies));
            }
            Self::Map(values) => {
                replies.map(values.len());
                for (key, value) in (0..).zip(values) {
                    replies.integer(key);
                    value.write(replies);
                }
            }
        }
    }

    fn in_version_2(&self) -> resp2::types::OwnedFrame {
        use resp2::types::OwnedFrame as Frame;
        match self {
            Self::Simple(text) => Frame::SimpleString(one_line(text).into_bytes()),
            Self::Error(text) => Frame::Error(one_line(text)),
            Self::Integer(value) => Frame::Integer(*value),
            Self::Bulk(bytes) => Frame::BulkString(bytes.clone()),
            Self::Null | Self::NullArray => Frame::Null,
            Self::Boolean(value) => Frame::Integer(i64::from(*value)),
            Self::Array(members) => Frame::Array(members.iter().map(Self::in_version_2).collect()),
            Self::Map(values) => {
                let entries = (0..).zip(values).map(|(key, value)| [Frame::Integer(key), value.in_version_2()]);
                Frame::Array(entries.flatten().collect())
            }
        }
    }

    fn in_version_3(&self) -> resp3::types::OwnedFrame {
        use resp3::types::OwnedFrame as Frame;
        let attributes = None;
        match self {
            Self::Simple(text) => Frame::SimpleString { data: one_line(text).into_bytes(), attributes },
            Self::Error(text) => Frame::SimpleError { data: one_line(text), attributes },
            Self::Integer(value) => Frame::Number { data: *value, attributes },
            Self::Bulk(bytes) => Frame::BlobString { data: bytes.clone(), attributes },
            Self::Null | Self::NullArray => Frame::Null,
            Self::Boolean(value) => Frame::Boolean { data: *value, attributes },
            Self::Array(members) => Frame::Array { data: members.iter().map(Self::in_version_3).collect(), attributes },
            Self::Map(values) => {
                let key = |data| Frame::Number { data, attributes: None };
                let data = (0..).zip(values).map(|(number, value)| (key(number), value.in_version_3())).collect();
                Frame::Map { data, attributes }
            }
        }
    }
}

fn one_line(text: &str) -> String {
    text.replace(['\r', '\n'], " ")
}

fn replies() -> impl Strategy<Value = Reply> {
    let leaf = prop_oneof![
        "[a-zA-Z \r\n]{0,20}".prop_map(Reply::Simple),
        "ERR [a-z\r\n']{0,20}".prop_map(Reply::Error),
        any::<i64>().prop_map(Reply::Integer),
        proptest::collection::vec(any::<u8>(), 0..60).prop_map(Reply::Bulk),
        Just(Reply::Null),
        Just(Reply::NullArray),
        any::<bool>().prop_map(Reply::Boolean),
    ];
    leaf.prop_recursive(3, 30, 6, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..6).prop_map(Reply::Array),
            proptest::collection::vec(inner, 0..6).prop_map(Reply::Map),
        ]
    })
}

proptest! {
    #![proptest_config(config(500))]

    #[test]
    fn replies_are_read_as_they_were_meant(stream in proptest::collection::vec(replies(), 1..5)) {
        let (mut two, mut three) = (Replies::new(Protocol::Resp2), Replies::new(Protocol::Resp3));
        for reply in &stream {
            reply.write(&mut two);
            reply.write(&mut three);
        }
        let (mut two, mut three) = (&two.take()[..], &three.take()[..]);
        for reply in &stream {
            let (frame, consumed_bytes) = resp2::decode::decode(two).expect("a reply").expect("a whole reply");
            prop_assert_eq!(frame, reply.in_version_2());
            two = &two[consumed_bytes..];
            let (frame, consumed_bytes) = resp3::decode::complete::decode(three).expect("a reply").expect("a whole reply");
            prop_assert_eq!(frame, reply.in_version_3());
            three = &three[consumed_bytes..];
        }
        prop_assert!(two.is_empty() && three.is_empty());
    }
}

#[test]
fn bytes_are_those_of_the_protocol() {
    type Write = fn(&mut Replies);
    let samples: [(Write, &str, &str); 13] = [
        (|it| it.simple("OK"), "+OK\r\n", "+OK\r\n"),
        (|it| it.error("ERR a\r\nb\n"), "-ERR a  b \r\n", "-ERR a  b \r\n"),
        (|it| it.error(format_args!("ERR {}\r{}", 1, 2)), "-ERR 1 2\r\n", "-ERR 1 2\r\n"),
        (|it| it.integer(i64::MIN), ":-9223372036854775808\r\n", ":-9223372036854775808\r\n"),
        (|it| it.bulk(b"a\r\nb"), "$4\r\na\r\nb\r\n", "$4\r\na\r\nb\r\n"),
        (|it| it.bulk(b""), "$0\r\n\r\n", "$0\r\n\r\n"),
        (Replies::null, "$-1\r\n", "_\r\n"),
        (Replies::null_array, "*-1\r\n", "_\r\n"),
        (Replies::empty_array, "*0\r\n", "*0\r\n"),
        (|it| it.boolean(true), ":1\r\n", "#t\r\n"),
        (|it| it.boolean(false), ":0\r\n", "#f\r\n"),
        (|it| it.array(12), "*12\r\n", "*12\r\n"),
        (|it| it.map(7), "*14\r\n", "%7\r\n"),
    ];
    for (write, two, three) in samples {
        let mut replies = Replies::new(Protocol::Resp2);
        write(&mut replies);
        assert_eq!(replies.as_bytes(), two.as_bytes());
        replies.set_protocol(Protocol::Resp3);
        assert_eq!((replies.protocol(), replies.len()), (Protocol::Resp3, two.len()));
        write(&mut replies);
        assert_eq!(replies.take(), [two, three].concat());
        assert!(replies.is_empty());
    }
}
