//! Tests of clients that present a token instead of a certificate.

use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use firstseen_node::AuditSettings;
use firstseen_wire::net::{self, Channel};
use firstseen_wire::proto::admin::change_access_request::Change;
use firstseen_wire::proto::admin::{self, NewToken, Rights, Verb};
use firstseen_wire::proto::producer::{self, Batch, Operation, Reason};
use firstseen_wire::token::{TOKEN_RANDOM_BYTES, Token};
use tonic::Code;

use crate::common::calls::{calls, is_denied};
use crate::common::certs::{Authority, channel, channel_without, settings};
use crate::common::operator::{change, create};
use crate::common::{RawStream, TestNode, wait_for};

/// Number of connection slots at the node.
const PLACES: u32 = 48;

/// Starts a node that accepts tokens. Returns the node, the channel of its operator, and the certificate authority.
async fn taking_tokens(folder: &Path) -> (TestNode, Channel, Authority) {
    let authority = Authority::new(folder);
    let mut own = settings(&authority.node("a"));
    own.tokens = true;
    let audit = AuditSettings { file: folder.join("audit.jsonl") };
    let node = TestNode::start_with("a", |config| {
        config.tls = Some(own);
        config.audit = Some(audit);
        config.limits.connections_max = PLACES;
    })
    .await;
    let operator = channel(&node, &authority.sign("admin", &["admin.firstseen"]));
    net::admin_client(operator.clone()).init(admin::InitRequest {}).await.expect("a cluster");
    (node, operator, authority)
}

async fn grant(operator: &Channel, principal: &str, verb: Verb, filters: &str) {
    let grants = vec![admin::Grant { verb: verb.into(), filters: filters.to_owned() }];
    change(operator, Change::Grant(Rights { principal: principal.to_owned(), grants })).await.expect("rights");
}

fn token(number: u8) -> Token {
    Token::new([number; TOKEN_RANDOM_BYTES])
}

async fn give(operator: &Channel, principal: &str, token: &Token, expires_s: u64) -> Result<(), tonic::Status> {
    let (principal, id) = (principal.to_owned(), token.id().number());
    let asked = NewToken { principal, id, digest: token.digest().to_vec().into(), expires_s };
    change(operator, Change::AddToken(asked)).await
}

/// Creates a batch that looks up one event.
fn lookup(filter: &producer::Filter, sequence: u64, incarnation: u64) -> Batch {
    Batch {
        sequence,
        filter_id: filter.id,
        filter_epoch: filter.epoch,
        incarnation,
        operation: Operation::Lookup.into(),
        events: 1,
        ..Batch::default()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_token_is_as_good_as_a_certificate_of_its_principal_and_without_either_nothing_is_allowed() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, operator, authority) = taking_tokens(folder.path()).await;
    for (number, (name, verb, filters)) in
        (1..).zip([("crawler", Verb::Observe, "*"), ("tenant", Verb::Manage, "*"), ("keeper", Verb::Security, "")])
    {
        grant(&operator, name, verb, filters).await;
        give(&operator, name, &token(number), 0).await.expect("a token");
    }
    let named = |name: &str| authority.sign(name, &["client.firstseen", &format!("{name}.client.firstseen")]);
    let mut guessed = [1; TOKEN_RANDOM_BYTES];
    guessed[TOKEN_RANDOM_BYTES - 1] ^= 1;
    for is_enabled in [false, true] {
        if is_enabled {
            change(&operator, Change::Enable(true)).await.expect("somebody has security");
        }
        for (number, name) in (1..).zip(["crawler", "tenant", "keeper"]) {
            let files = named(name);
            let by_token = token(number);
            let mut allowed = 0;
            for path in calls() {
                let expected = is_denied(channel(&node, &files), &path).await;
                let found = is_denied(channel_without(&node, &authority, Some(&by_token)), &path).await;
                assert_eq!(found, expected, "{name}, rights asked for: {is_enabled}: {path}");
                allowed += usize::from(!found);
            }
            assert!(allowed > 0, "{name} may do something");
        }
        for stranger in [None, Some(Token::new(guessed)), Some(token(9))] {
            for path in calls() {
                let to = channel_without(&node, &authority, stranger.as_ref());
                assert!(is_denied(to, &path).await, "{stranger:?}: {path}");
            }
        }
    }
    let audit = std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("an audit file");
    assert!(audit.contains(r#""change":"add-token""#) && audit.contains(r#""event":"denied""#), "{audit}");
    for token in [token(1), token(2), token(3), token(9), Token::new(guessed)] {
        let (text, digest) = (token.reveal(), token.digest());
        let digest: String = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        assert!(!audit.contains(&text[text.len() - 64..]) && !audit.contains(&digest), "the audit file has no secret");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_open_ends_when_its_token_is_taken_back_or_expires() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, operator, authority) = taking_tokens(folder.path()).await;
    let filter = create(&operator, "clicks").await;
    grant(&operator, "crawler", Verb::Lookup, "clicks").await;
    let second = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    give(&operator, "crawler", &token(1), 0).await.expect("a token");
    give(&operator, "crawler", &token(2), second + 2).await.expect("another");
    let full = give(&operator, "crawler", &token(3), 0).await.expect_err("two are valid");
    assert!(full.message().contains("access token revoke"), "{full}");
    let open = async |token: &Token| RawStream::greeted_over(channel_without(&node, &authority, Some(token)), 1).await;
    let (mut lasting, credit) = open(&token(1)).await;
    let (mut brief, of_brief) = open(&token(2)).await;
    let reply = lasting.ask(lookup(&filter, 1, credit.incarnation.0)).await;
    assert_ne!(reply.refused(), Reason::Forbidden, "{}", reply.detail);
    // The token expires without any change of the cluster map.
    let mut sequence = 0;
    let expired = loop {
        sequence += 1;
        let reply = brief.ask(lookup(&filter, sequence, of_brief.incarnation.0)).await;
        if reply.refused() == Reason::Forbidden {
            break reply;
        }
    };
    assert!(expired.detail.contains("expired"), "{}", expired.detail);
    let now_s = SystemTime::now().duration_since(UNIX_EPOCH).expect("a time").as_secs();
    assert!(now_s >= second + 2, "not before its time");
    // There is room for the next token again.
    give(&operator, "crawler", &token(3), 0).await.expect("the expired one is forgotten");
    change(&operator, Change::RemoveToken(token(1).id().number())).await.expect("taken back");
    let reply = lasting.ask(lookup(&filter, 2, credit.incarnation.0)).await;
    assert!(reply.refused() == Reason::Forbidden && reply.detail.contains("taken back"), "{}", reply.detail);
    let describe = producer::DescribeFilterRequest { name: "clicks".to_owned() };
    let again =
        net::producer_client(channel_without(&node, &authority, Some(&token(1)))).describe_filter(describe).await;
    assert_eq!(again.expect_err("taken back").code(), Code::PermissionDenied);
    let listed = net::admin_client(operator.clone()).list_access(admin::ListAccessRequest {}).await.expect("a list");
    let tokens = &listed.into_inner().principals[0].tokens;
    assert_eq!(tokens.iter().map(|token| token.id).collect::<Vec<_>>(), [token(3).id().number()]);
    let lines = || std::fs::read_to_string(folder.path().join("audit.jsonl")).expect("an audit file");
    wait_for("a line that says who came by a token", || lines().contains(r#""event":"came","who":"crawler""#)).await;
}

/// Tests that clients without a certificate or token do not use the slots of other clients.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn strangers_take_no_places() {
    let folder = tempfile::tempdir().expect("a folder");
    let (node, operator, authority) = taking_tokens(folder.path()).await;
    create(&operator, "clicks").await;
    grant(&operator, "crawler", Verb::Lookup, "clicks").await;
    give(&operator, "crawler", &token(1), 0).await.expect("a token");
    let describe = || producer::DescribeFilterRequest { name: "clicks".to_owned() };
    let mut held = Vec::new();
    for _ in 0..2 * PLACES {
        let stranger = net::producer_client(channel_without(&node, &authority, None));
        let refused = stranger.clone().describe_filter(describe()).await.expect_err("a stranger");
        assert_eq!(refused.code(), Code::PermissionDenied, "{refused}");
        held.push(stranger);
    }
    let files = authority.sign("client", &["client.firstseen"]);
    for to in [channel(&node, &files), channel_without(&node, &authority, Some(&token(1)))] {
        net::producer_client(to).describe_filter(describe()).await.expect("there is room");
    }
}
