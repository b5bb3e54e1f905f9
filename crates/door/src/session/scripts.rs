//! Commands about scripts, except those that run one.
//!
//! This module must not depend on what known scripts do.

use firstseen_resp::{Replies, ScriptRequest, is_known_script};

use crate::counts::DoorCounts;

/// The error of Redis for an unknown hash, after which clients send the script itself.
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

pub(super) fn reply(replies: &mut Replies, counts: &DoorCounts, request: ScriptRequest<'_>) {
    match request {
        // What a known script does is asked as the command that it is.
        ScriptRequest::Unknown | ScriptRequest::Run(_) => counts.refuse(replies, NO_SCRIPT),
        ScriptRequest::Load { sha1 } => replies.bulk(sha1.as_bytes()),
        ScriptRequest::Exists { hashes } => {
            replies.array(hashes.len());
            hashes.iter().for_each(|sha1| replies.integer(i64::from(is_known_script(sha1))));
        }
        ScriptRequest::Flush => replies.simple("OK"),
    }
}
