//! `cachestat` and `mincore` say the same.

use super::*;

#[test]
fn both_system_calls_find_the_same_pages() {
    let file = tempfile::tempfile().unwrap();
    file.set_len(page_bytes() * 40_000).unwrap();
    for page in [0, 1, 5, 20_000, 39_999] {
        std::os::unix::fs::FileExt::write_at(&file, b"x", page * page_bytes()).unwrap();
    }
    let runs = resident_runs(&file, 0..40_000).unwrap();
    let by_mincore: u64 = runs.iter().map(|run| run.end - run.start).sum();
    for page in [0, 1, 5, 20_000, 39_999] {
        assert!(runs.iter().any(|run| run.contains(&page)), "page {page} is not in {runs:?}");
    }
    match sys::cachestat(&file, 0, 40_000 * page_bytes()) {
        Ok(stat) => assert_eq!(stat.cached, by_mincore),
        Err(error) => assert!(lacks_cachestat(&error), "{error}"),
    }
}

#[test]
fn a_range_is_widened_to_whole_pages() {
    assert_eq!(pages_of(&(0..1), 4096).unwrap(), 0..1);
    assert_eq!(pages_of(&(4095..4097), 4096).unwrap(), 0..2);
    assert_eq!(pages_of(&(4096..8192), 4096).unwrap(), 1..2);
    assert!(pages_of(&(9..9), 4096).unwrap().is_empty());
    let descending = Range { start: 2, end: 1 };
    assert_eq!(pages_of(&descending, 4096).unwrap_err().kind(), io::ErrorKind::InvalidInput);
}
