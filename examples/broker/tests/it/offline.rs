//! A broker whose disks have failed.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};

use kafka_protocol::messages::CreateTopicsRequest;
use kafka_protocol::messages::create_topics_request::CreatableTopic;

use crate::client::{Client, name};

/// FR-059: with nothing to serve from it ends, and says so to whoever runs it.
#[test]
#[expect(clippy::disallowed_methods, reason = "a disk that fails keeps nothing")]
fn a_broker_whose_last_disk_is_gone_ends_with_an_error() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().join("data");
    fs::create_dir(&data).unwrap();
    let mut broker = Command::new(env!("CARGO_BIN_EXE_alluvium-broker"))
        .args(["--listen", "127.0.0.1:0", "--data"])
        .arg(&data)
        .env_remove("RUST_LOG")
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut lines = BufReader::new(broker.stderr.take().unwrap()).lines().map_while(Result::ok);
    let addr = lines.find_map(|line| {
        let (_, rest) = line.split_once("listening=")?;
        rest.split(' ').next()?.parse().ok()
    });
    let mut client = Client::connect(addr.expect("the broker says where it listens"));
    client.create("t", 1);
    // Moved away in one step: the broker may make a file in it at any time.
    fs::rename(&data, folder.path().join("gone")).unwrap();
    let topic = CreatableTopic::default()
        .with_name(name("u"))
        .with_num_partitions(1)
        .with_replication_factor(1);
    // Whether it is answered is left open: the broker ends meanwhile.
    client.send(7, &CreateTopicsRequest::default().with_topics(vec![topic]));
    let said: Vec<_> = lines.collect();
    assert_eq!(broker.wait().unwrap().code(), Some(1), "{said:#?}");
    assert!(!said.iter().any(|line| line.contains("panicked")), "{said:#?}");
    let last = said.last().unwrap();
    assert!(last.contains("every log directory is offline"), "{said:#?}");
}
