//! Retention beside what decides how far it may go.

use alluvium_record_format::Offset;
use shuttle::thread;

use super::explore;
use super::fixture::{Fixture, append};
use crate::LogConfig;

/// It drops what the watermark allowed when it was asked, or less; that is no error of its caller.
#[test]
fn retention_beside_a_watermark_that_rises_and_falls_drops_what_it_may() {
    explore(|| {
        let Fixture { log, .. } = &Fixture::new();
        for value in [b"0", b"1", b"2"] {
            append(log, value);
            log.roll().unwrap();
        }
        log.update_high_watermark(Offset::new(1)).unwrap();
        let config = LogConfig::builder().retention_ms(None).retention_bytes(Some(0));
        log.set_config(config.build().unwrap());
        thread::scope(|scope| {
            scope.spawn(|| {
                for offset in [3, 1, 0] {
                    log.update_high_watermark(Offset::new(offset)).unwrap();
                }
            });
            scope.spawn(|| {
                log.delete_old_segments().unwrap();
                let first = log.segments()[0].0;
                assert_eq!(log.log_start_offset(), first, "nothing else raises it");
            });
        });
        assert!(log.high_watermark() >= log.log_start_offset());
    });
}
