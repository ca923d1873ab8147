//! An example: one broker that Kafka clients produce to and fetch from.
#![forbid(unsafe_code)]

fn main() {}
