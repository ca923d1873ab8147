//! What `strace` wrote, added up; the broker's tests read theirs with it as well.

use std::collections::BTreeMap;

/// Adds up what calls returned, in lines as `7 sendfile(4, 5, [0] => [9], 9) = 9` and
/// `7 <... read resumed>"..", 9) = 9`.
pub(crate) fn bytes_by_call(trace: &str) -> BTreeMap<String, u64> {
    let mut bytes = BTreeMap::new();
    for line in trace.lines() {
        let Some((call, returned)) = line.rsplit_once(" = ") else { continue };
        let Some(Ok(count)) = returned.split(' ').next().map(str::parse::<u64>) else { continue };
        let call = call.split_once(' ').map_or("", |(_pid, call)| call.trim_start());
        let call = call.strip_prefix("<... ").unwrap_or(call);
        let name = call.split(['(', ' ']).next().unwrap_or_default();
        *bytes.entry(name.to_owned()).or_default() += count;
    }
    bytes
}

#[test]
fn calls_are_added_up_by_name() {
    let trace = "7 sendfile(4, 5, [0] => [9], 9) = 9\n8 read(3,  <unfinished ...>\n\
                 8 <... read resumed>\"a = b\", 9)    = 5\n7 sendfile(4, 5, [9], 9) = -1 EAGAIN\n\
                 7 sendfile(4, 5, [9] => [10], 1) = 1\n7 +++ exited with 0 +++\n";
    let expected = BTreeMap::from([("read".to_owned(), 5), ("sendfile".to_owned(), 10)]);
    assert_eq!(bytes_by_call(trace), expected);
}
