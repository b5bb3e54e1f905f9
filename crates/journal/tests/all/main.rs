//! Tests of records on a disk that fails, and of damaged data.

mod corpus;
mod crashes;
mod records;
