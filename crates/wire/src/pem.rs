//! A node's certificate and key as the files have them.
//!
//! Must not know: where files come from, who checks them.

use tonic::transport::{Certificate, Identity};

/// This end's certificate and the authority's, as they are in their files.
pub(crate) struct Pem {
    pub(crate) ca: Vec<u8>,
    pub(crate) cert: Vec<u8>,
    pub(crate) key: Vec<u8>,
}

impl Pem {
    pub(crate) fn authority(&self) -> Certificate {
        Certificate::from_pem(&self.ca)
    }

    pub(crate) fn identity(&self) -> Identity {
        Identity::from_pem(&self.cert, &self.key)
    }
}
