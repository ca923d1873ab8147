//! Text as Java shows it, so that our output can equal that of Kafka's tools.

use std::path::{Path, PathBuf};

/// Appends `bytes` as Java's UTF-8 decoder shows them.
///
/// Like Rust's lossy conversion, but for encoded surrogates: Java puts one replacement character
/// for all of `ed a0 80`, Rust one for each byte.
pub(crate) fn push_java_utf8(bytes: &[u8], out: &mut Vec<u8>) {
    let mut rest = bytes;
    while let Err(error) = str::from_utf8(rest) {
        let (good, bad) = rest.split_at(error.valid_up_to());
        out.extend_from_slice(good);
        out.extend_from_slice("\u{fffd}".as_bytes());
        let len = match bad {
            [0xed, 0xa0..=0xbf, 0x80..=0xbf, ..] => 3,
            [0xed, 0xa0..=0xbf, ..] => 2,
            _ => error.error_len().unwrap_or(bad.len()),
        };
        rest = &bad[len..];
    }
    out.extend_from_slice(rest);
}

/// Appends `text` as a JSON string, escaped as Kafka's tools do it.
pub(crate) fn push_json_string(text: &str, out: &mut Vec<u8>) {
    out.push(b'"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => out.extend_from_slice(&[b'\\', byte]),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0..0x20 => out.extend_from_slice(format!("\\u{byte:04X}").as_bytes()),
            _ => out.push(byte),
        }
    }
    out.push(b'"');
}

/// A path as `java.io.File` holds it: without doubled or trailing slashes.
pub(crate) fn java_path(path: &Path) -> String {
    let text = path.to_string_lossy();
    let mut out = String::with_capacity(text.len());
    for part in text.chars() {
        if part != '/' || !out.ends_with('/') {
            out.push(part);
        }
    }
    if out.len() > 1 && out.ends_with('/') {
        out.pop();
    }
    out
}

/// A path as `File.getAbsolutePath` gives it: the current directory in front, dots kept.
pub(crate) fn java_absolute_path(path: &Path) -> String {
    if path.is_absolute() {
        return java_path(path);
    }
    let current = std::env::current_dir().unwrap_or_else(|_gone| PathBuf::from("/"));
    java_path(&current.join(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn java_utf8(bytes: &[u8]) -> String {
        let mut out = Vec::new();
        push_java_utf8(bytes, &mut out);
        String::from_utf8(out).unwrap()
    }

    /// The right-hand sides were printed by Java 17.
    #[test]
    fn malformed_utf8_gets_as_many_replacement_characters_as_in_java() {
        let cases: [(&[u8], &str); 9] = [
            (b"k1", "k1"),
            (b"\xed\xa0\x80", "\u{fffd}"),
            (b"\xed\xa0A", "\u{fffd}A"),
            (b"\xed\xa0", "\u{fffd}"),
            (b"\xed\x41", "\u{fffd}A"),
            (b"\xe0\x80\x80", "\u{fffd}\u{fffd}\u{fffd}"),
            (b"\xf0\x9f\x98", "\u{fffd}"),
            (b"\xc3\xa9\xff", "é\u{fffd}"),
            (b"\x80\xbf", "\u{fffd}\u{fffd}"),
        ];
        for (bytes, expected) in cases {
            assert_eq!(java_utf8(bytes), expected, "{bytes:02x?}");
        }
    }

    #[test]
    fn a_json_string_escapes_quotes_backslashes_and_controls_alone() {
        let mut out = Vec::new();
        push_json_string("a\"b\\c/d\n\u{1f}\u{7f}é", &mut out);
        let expected = "\"a\\\"b\\\\c/d\\n\\u001F\u{7f}é\"";
        assert_eq!(String::from_utf8(out).unwrap(), expected);
    }

    #[test]
    fn a_path_loses_doubled_and_trailing_slashes_but_keeps_dots() {
        assert_eq!(java_path(Path::new("./a//b/../c.log")), "./a/b/../c.log");
        assert_eq!(java_path(Path::new("a/")), "a");
        assert_eq!(java_path(Path::new("/")), "/");
    }
}
