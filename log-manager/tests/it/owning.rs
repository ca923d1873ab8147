//! Whose directories and partitions these are.

use std::fs;
use std::io::ErrorKind;

use alluvium_log_manager::{
    BrokerIdentity, Closed, ErrorCode, LeaderRequest, Log, LogConfig, LogManager, ManagerError,
    NewLog,
};
use alluvium_record_format::{LeaderEpoch, Offset, Uuid};
use alluvium_recovery::{MetaProperties, TopicPartition};
use alluvium_segment::{DirLock, Io, IoCall};

use crate::batches::{NOW, batch};
use crate::cluster::{Cluster, t};
use crate::disk::append;

const FILE: &str = "meta.properties";
const MARKER: &str = ".kafka_cleanshutdown";

fn node(id: i32) -> BrokerIdentity {
    BrokerIdentity::new("our-cluster", id)
}

/// Disks that hold these files, each with a marker of a clean stop.
fn disks(files: &[Option<&str>]) -> Cluster {
    let cluster = Cluster::new(files.len());
    for (index, content) in files.iter().enumerate() {
        let path = cluster.path(&format!("d{}", index + 1));
        fs::create_dir(&path).unwrap();
        fs::write(path.join(MARKER), "{}").unwrap();
        if let Some(content) = content {
            fs::write(path.join(FILE), content).unwrap();
        }
    }
    cluster
}

const ONE: &str =
    "version=1\ncluster.id=our-cluster\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAZQ\n";
const TWO: &str =
    "version=1\ncluster.id=our-cluster\nnode.id=1\ndirectory.id=AAAAAAAAAAAAAAAAAAAAZg\n";

#[test]
fn directories_that_belong_to_the_broker_and_to_each_other_start_with_their_ids() {
    let old = "version=0\nbroker.id=1\n";
    let cluster = disks(&[Some(ONE), Some(TWO), Some(old)]);
    let (manager, report) = cluster.options().identity(node(1)).start().unwrap();
    assert!(report.dirs.iter().all(|dir| dir.was_clean), "{report:?}");
    let ids: Vec<_> = report.dirs.iter().map(|dir| dir.id.map(|id| id.to_string())).collect();
    let id = |text: &str| Some(text.to_owned());
    assert_eq!(ids, [id("AAAAAAAAAAAAAAAAAAAAZQ"), id("AAAAAAAAAAAAAAAAAAAAZg"), None]);
    assert_eq!(manager.directory_id(&cluster.path("d2")), report.dirs[1].id);
    assert_eq!(cluster.read("d3/meta.properties"), old);
}

/// Each of these is refused as Kafka refuses it, and nothing has been changed: the marker of the
/// clean stop is still there for the broker whose disk it is.
#[test]
fn a_directory_of_another_broker_refuses_the_start_and_keeps_its_marker() {
    let of =
        |cluster: &str, node: i32| format!("version=1\ncluster.id={cluster}\nnode.id={node}\n");
    let other_cluster = of("another", 1);
    let other_node = of("our-cluster", 2);
    let cases: [(&[Option<&str>], i32, &str); 6] = [
        (&[Some(ONE), Some(&other_cluster)], 1, "is not a directory of node 1"),
        (&[Some(ONE), Some(&other_node)], 1, "is not a directory of node 1"),
        (&[Some("version=0\nbroker.id=2\n")], 1, "is not a directory of node 1"),
        (&[Some(ONE)], 7, "is not a directory of node 7"),
        (&[Some(ONE), Some(ONE)], 1, "are not directories of one broker"),
        (&[Some(ONE), None], 1, "no meta.properties in"),
    ];
    for (files, id, expected) in cases {
        let cluster = disks(files);
        let refused = cluster.options().identity(node(id)).start().unwrap_err();
        assert!(refused.to_string().contains(expected), "{refused}");
        assert_eq!(refused.code(), ErrorCode::KafkaStorageError);
        for (index, content) in files.iter().enumerate() {
            let dir = format!("d{}", index + 1);
            assert!(cluster.list(&dir).contains(&MARKER.to_owned()), "{expected}");
            let found = fs::read_to_string(cluster.path(&dir).join(FILE)).ok();
            assert_eq!(found.as_deref(), *content);
        }
    }
}

#[test]
fn directories_that_do_not_fit_together_are_refused_without_an_identity_too() {
    let cluster = disks(&[Some(ONE), Some(ONE)]);
    assert!(matches!(cluster.try_start(), Err(ManagerError::DirsDiffer { .. })));
    let cluster = disks(&[Some(ONE), None, Some(TWO)]);
    cluster.try_start().unwrap();
}

/// A file that cannot be read takes its directory offline and no other.
#[test]
fn a_damaged_file_takes_its_directory_offline() {
    let bad = ["version=7\n", "version=1\ncluster.id=our-cluster\n"];
    for content in bad {
        let cluster = disks(&[Some(ONE), Some(content)]);
        let (manager, report) = cluster.options().identity(node(1)).start().unwrap();
        assert_eq!(manager.live_dirs(), [cluster.path("d1")]);
        assert!(report.dirs[1].failure.as_ref().unwrap().contains("meta.properties"));
        assert!(cluster.list("d2").contains(&MARKER.to_owned()));
    }
}

#[test]
fn a_directory_without_an_id_gets_one_and_keeps_it() {
    let cluster = disks(&[Some("version=1\ncluster.id=our-cluster\nnode.id=1\nmore=kept\n")]);
    let (_, first) = cluster.options().identity(node(1)).start().unwrap();
    let id = first.dirs[0].id.unwrap();
    let written = MetaProperties::read(&Io::new(), &cluster.path("d1")).unwrap().unwrap();
    assert_eq!(written.directory_id, Some(id));
    assert_eq!(written.other.value("more"), Some("kept"));
    let (_, second) = cluster.options().identity(node(1)).start().unwrap();
    assert_eq!(second.dirs[0].id, Some(id));
}

#[test]
fn a_new_directory_is_formatted_where_that_is_asked_for_and_it_holds_no_partition() {
    let cluster = Cluster::new(2);
    let formatting = || cluster.options().identity(node(3).format_new_dirs());
    let (_, report) = formatting().start().unwrap();
    let ids: Vec<Uuid> = report.dirs.iter().filter_map(|dir| dir.id).collect();
    assert!(ids.len() == 2 && ids[0] != ids[1], "{ids:?}");
    let written = MetaProperties::read(&Io::new(), &cluster.path("d2")).unwrap().unwrap();
    assert_eq!((written.cluster_id.as_deref(), written.node_id), (Some("our-cluster"), Some(3)));
    fs::remove_file(cluster.path("d2").join(FILE)).unwrap();
    fs::create_dir(cluster.path("d2").join("t-0")).unwrap();
    assert!(matches!(formatting().start(), Err(ManagerError::Unformatted { .. })));
}

const OURS: Uuid = Uuid::from_bytes([7; 16]);
const OLD: Uuid = Uuid::from_bytes([8; 16]);

/// Partitions 0 and 1 with one record each, of our topic and of an older one of the same name.
fn two_topics(manager: &LogManager) {
    for (number, id) in [(0, OURS), (1, OLD)] {
        let log = manager.get_or_create(&t(number), &NewLog::new().is_new().topic_id(id)).unwrap();
        append(&log, &batch(&[(None, NOW.get())]));
    }
}

/// After a crash too: a stray log is recovered and closed properly before it is set aside, so it
/// can come back.
#[test]
fn a_partition_that_is_not_ours_is_set_aside_at_the_start_and_stays_whole() {
    for clean in [true, false] {
        let cluster = Cluster::new(1);
        let (manager, _) = cluster.start();
        two_topics(&manager);
        if clean {
            manager.stop(None).unwrap();
        }
        drop(manager);
        let ours = |partition: &TopicPartition, id| {
            assert_eq!(partition.topic(), "t");
            id != Some(OURS)
        };
        let (manager, report) = cluster.options().stray_when(ours).start().unwrap();
        assert_eq!(manager.partitions(), [t(0)]);
        let [stray] = &report.dirs[0].stray[..] else { panic!("{report:?}") };
        assert!(stray.starts_with("t-1.") && stray.ends_with("-stray"), "{stray}");
        assert!(cluster.list("d1").contains(stray));
        manager.stop(None).unwrap();
        assert_eq!(cluster.read("d1/recovery-point-offset-checkpoint"), "0\n1\nt 0 1\n");
        drop(manager);

        let (manager, report) = cluster.start();
        assert_eq!(&report.dirs[0].stray, std::slice::from_ref(stray), "it stays");
        manager.stop(None).unwrap();
        drop(manager);
        let (from, to) = (cluster.path("d1").join(stray), cluster.path("d1").join("t-1"));
        Io::new().rename(&from, &to).unwrap();
        let (manager, _) = cluster.start();
        assert_eq!(manager.log(&t(1)).unwrap().log_end_offset(), Offset::new(1));
    }
}

/// The id counted as unknown then, and the log of our own topic was set aside.
#[test]
fn a_partition_whose_topic_cannot_be_told_is_not_loaded_and_keeps_its_name() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    two_topics(&manager);
    manager.stop(None).unwrap();
    drop(manager);
    let file = cluster.path("d1/t-0/partition.metadata");
    let sound = fs::read(&file).unwrap();
    let start = || cluster.options().stray_when(|_, id| id != Some(OURS)).start().unwrap();
    for content in [Some("version: 0\ntopic_id: x"), None] {
        fs::remove_file(&file).unwrap();
        match content {
            Some(content) => fs::write(&file, content).unwrap(),
            None => fs::create_dir(&file).unwrap(),
        }
        let (manager, report) = start();
        assert_eq!(report.dirs[0].not_loaded[0].0, t(0));
        assert!(cluster.list("d1").contains(&"t-0".to_owned()));
        assert!(matches!(manager.log(&t(0)), Err(ManagerError::NotLoaded { .. })));
        assert_eq!(manager.offline_dirs(), []);
        manager.stop(None).unwrap();
    }
    fs::remove_dir(&file).unwrap();
    fs::write(&file, sound).unwrap();
    let (manager, report) = start();
    assert_eq!(manager.log(&t(0)).unwrap().log_end_offset(), Offset::new(1));
    assert_eq!(report.dirs[0].stray.len(), 1, "the other one, once");
}

/// What the disk refuses is no question of whose the partition is.
#[test]
fn a_topic_that_the_disk_does_not_give_takes_it_offline_and_nothing_is_set_aside() {
    let cluster = Cluster::new(2);
    let (manager, _) = cluster.start();
    let new = NewLog::new().is_new().topic_id(OURS);
    append(&manager.get_or_create(&t(0), &new).unwrap(), &batch(&[(None, NOW.get())]));
    manager.stop(None).unwrap();
    drop(manager);
    cluster.faults.fail_once(ErrorKind::Other, |call| {
        let IoCall::Open { path, .. } = call else { return false };
        path.ends_with("t-0/partition.metadata")
    });
    let (manager, _) = cluster.options().stray_when(|_, id| id != Some(OURS)).start().unwrap();
    assert_eq!(manager.live_dirs(), [cluster.path("d2")]);
    assert!(matches!(manager.log(&t(0)), Err(ManagerError::Offline { .. })));
    assert!(cluster.list("d1").contains(&"t-0".to_owned()));
}

#[test]
fn a_log_that_is_set_aside_in_use_leaves_the_maps_and_the_checkpoints() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    two_topics(&manager);
    manager.write_checkpoints();
    let name = manager.set_aside(&t(1)).unwrap();
    assert!(name.starts_with("t-1.") && name.ends_with("-stray"), "{name}");
    assert!(matches!(manager.log(&t(1)), Err(ManagerError::Unknown { .. })));
    assert!(!cluster.read("d1/recovery-point-offset-checkpoint").contains("t 1 "));
    cluster.clock.advance_ms(1_000_000_000);
    manager.tick();
    assert!(cluster.list("d1").contains(&name), "nobody removes it");
}

#[test]
fn a_stop_gives_the_lock_back_although_old_segments_still_wait_to_go() {
    let cluster = Cluster::new(1);
    let (manager, _) = cluster.start();
    let log = manager.get_or_create(&t(0), &NewLog::new().is_new()).unwrap();
    append(&log, &batch(&[(None, NOW.get())]));
    log.roll().unwrap();
    log.update_high_watermark(Offset::new(1)).unwrap();
    log.increment_log_start_offset(Offset::new(1)).unwrap();
    assert_eq!(log.delete_old_segments().unwrap(), 1);
    let waiting = || cluster.list("d1/t-0").iter().filter(|it| it.ends_with(".deleted")).count();
    assert!(waiting() > 0);
    let before = waiting();

    drop(log);
    manager.stop(None).unwrap();
    drop(manager);
    let lock = DirLock::acquire(&cluster.path("d1")).unwrap();
    cluster.clock.advance_ms(1_000);
    cluster.tasks.run_due();
    assert_eq!(waiting(), before, "the directory is another's now");
    drop(lock);

    let (_manager, _) = cluster.start();
    cluster.clock.advance_ms(1_000);
    cluster.tasks.run_due();
    assert_eq!(waiting(), 0);
}

/// The thread that writes epochs and syncs rolled segments holds the log, and with it the lock of
/// its directory, while it does.
#[test]
fn a_log_that_was_closed_can_be_opened_again_at_once() {
    let disk = tempfile::tempdir().unwrap();
    let dir = disk.path().join("orders-0");
    let config = LogConfig::builder().retention_ms(None).build().unwrap();
    let log = Log::open(&dir, config.clone()).unwrap();
    let mut closed = append_and_close(&log, 0);
    drop(log);
    for epoch in 1..100 {
        let log = Log::options().config(config.clone()).after_close(&closed).open(&dir).unwrap();
        closed = append_and_close(&log, epoch);
    }
    assert_eq!(closed.recovery_point, Offset::new(100));
}

fn append_and_close(log: &Log, epoch: i32) -> Closed {
    let mut sent = batch(&[(Some(b"k"), 1)]);
    log.append_as_leader(&mut sent, LeaderRequest::new(LeaderEpoch::new(epoch))).unwrap();
    log.close().unwrap()
}
