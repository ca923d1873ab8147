//! Runs the built command on disks that Kafka wrote, whole and damaged.

mod disk;
mod dump_kafka;
mod dump_kafka_damaged;
mod process;
