//! Tests of `alluvium-recovery` through its public API.

mod batches;
mod checkpoint_files;
mod directory;
mod golden_files;
mod io_faults;
mod leader_epochs;
mod load_crash;
mod load_damage;
mod load_golden;
mod load_headers;
mod load_indexes;
mod load_producers;
mod load_strays;
mod load_table;
mod logs;
mod producer_checks;
mod producer_snapshots;
mod prop_files;
mod prop_load;
mod small_files;
