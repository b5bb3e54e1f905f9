//! Messages and services that are generated from `proto/`.
//!
//! This module contains exactly the messages that the files in `proto/` define, and the test
//! `crates/tidy/tests/all/generated.rs` checks this. Other modules of this crate convert the messages to checked
//! values.
//!
//! The debug output of a message does not show secrets.

use std::fmt;

/// All definitions in `proto/` as an encoded `FileDescriptorSet`, for gRPC reflection.
pub const FILE_DESCRIPTOR_SET: &[u8] = include_bytes!("generated/descriptors.bin");

macro_rules! package {
    ($name:ident, $path:literal, $doc:literal) => {
        #[doc = $doc]
        pub mod $name {
            /// Version 1 of this package.
            #[allow(missing_docs, unreachable_pub, clippy::all)]
            pub mod v1 {
                include!(concat!("generated/", $path, ".rs"));
            }
            pub use v1::*;
        }
    };
}

package!(producer, "firstseen.producer.v1", "Between producers and nodes.");
package!(peer, "firstseen.peer.v1", "Between nodes: the pipeline of slices that share events.");
package!(meta, "firstseen.meta.v1", "Between the members of a cluster: Raft and proposals.");
package!(admin, "firstseen.admin.v1", "For operators.");

impl fmt::Debug for producer::DescribeFilterReply {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DescribeFilterReply").field("filter", &self.filter).finish_non_exhaustive()
    }
}

impl fmt::Debug for admin::CreateFilterRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CreateFilterRequest")
            .field("name", &self.name)
            .field("definition_json", &self.definition_json)
            .finish_non_exhaustive()
    }
}

impl fmt::Debug for admin::RestoreFilterRequest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RestoreFilterRequest").field("filters", &self.filters).finish_non_exhaustive()
    }
}
