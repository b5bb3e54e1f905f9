//! Commands about scripts, except those that run a script.
//!
//! This module does not depend on what known scripts do.

use firstseen_resp::{Replies, ScriptRequest, is_known_script};

use crate::counts::RedisEndpointCounts;

/// Error message of Redis for an unknown script hash. Client libraries then send the script itself.
const NO_SCRIPT: &str = "NOSCRIPT No matching script. Please use EVAL.";

pub(super) fn reply(replies: &mut Replies, counts: &RedisEndpointCounts, request: ScriptRequest<'_>) {
    match request {
        // A known script that is run is translated to the command that it stands for, before it gets here.
        ScriptRequest::Unknown | ScriptRequest::Run(_) => counts.refuse(replies, NO_SCRIPT),
        ScriptRequest::Load { sha1 } => replies.bulk(sha1.as_bytes()),
        ScriptRequest::Exists { hashes } => {
            replies.array(hashes.len());
            hashes.iter().for_each(|sha1| replies.integer(i64::from(is_known_script(sha1))));
        }
        ScriptRequest::Flush => replies.simple("OK"),
    }
}
