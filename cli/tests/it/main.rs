//! Runs the built command on disks that Kafka wrote, whole and damaged.

mod broken_partition;
mod changing;
mod compact;
mod disk;
mod doctor;
mod doctor_settings;
mod dump_jsonl;
mod dump_kafka;
mod dump_kafka_damaged;
mod dump_table;
mod lookup;
mod memory;
mod odd_files;
mod operations;
mod pages;
mod process;
mod prop_salvage;
mod reindex;
mod repair;
mod residency;
mod retain;
mod salvage_neighbours;
mod stat;
mod stray;
mod verify;
mod verify_flips;
