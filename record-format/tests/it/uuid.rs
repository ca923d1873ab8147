//! Identifiers and their text.

use alluvium_record_format::Uuid;
use proptest::prelude::*;

#[test]
fn an_id_is_shown_as_kafka_shows_it() {
    for (value, text) in [
        (0, "AAAAAAAAAAAAAAAAAAAAAA"),
        (1, "AAAAAAAAAAAAAAAAAAAAAQ"),
        (0x4804_590f_ca4b_4025_85cc_2e74_2101_01e2, "SARZD8pLQCWFzC50IQEB4g"),
        (u128::MAX, "_____________________w"),
    ] {
        let id = Uuid::from_bytes(u128::to_be_bytes(value));
        assert_eq!(id.to_string(), text);
        assert_eq!(Uuid::parse(text), Some(id));
    }
}

#[test]
fn a_text_that_is_no_id_is_refused() {
    for text in [
        "",
        "==",
        "SARZD8pLQCWFzC50IQEB4",
        "SARZD8pLQCWFzC50IQEB4g=",
        "SARZD8pLQCWFzC50IQEB4gA",
        "SARZD8pLQCWFzC50IQEB4g====",
        "SARZD8pLQCWFzC50IQEB+g",
        "SARZD8pLQCWFzC50IQEB/g",
        " ARZD8pLQCWFzC50IQEB4g",
        "SARZD8pLQCWFzC50IQEBé",
    ] {
        assert_eq!(Uuid::parse(text), None, "{text}");
    }
}

proptest! {
    #[test]
    fn any_id_is_read_back_from_its_text(bytes in any::<[u8; 16]>()) {
        let id = Uuid::from_bytes(bytes);
        let text = id.to_string();
        prop_assert_eq!(text.len(), 22);
        prop_assert_eq!(Uuid::parse(&text), Some(id));
        prop_assert_eq!(Uuid::parse(&format!("{text}==")), Some(id));
        prop_assert_eq!(id.into_bytes(), bytes);
    }
}
