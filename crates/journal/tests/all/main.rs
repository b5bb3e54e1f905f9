//! Records on a disk that crashes, and bytes that are damaged.

mod corpus;
mod crashes;
mod records;
