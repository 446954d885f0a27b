//! Values on both sides of every bound, and strings.

use std::ffi::{CString, c_char};
use std::ptr::null;

use libfuzzer_sys::arbitrary::{Result, Unstructured};

const YEAR_MS: i64 = 366 * 24 * 3600 * 1000;
/// Stands in many URLs, and must not stand in a message.
pub const SECRET: &str = "hunter2";
/// Nothing is there.
pub const NOWHERE: &str = "unix:///nonexistent/redis.sock?pass=hunter2";

pub fn ms(u: &mut Unstructured) -> Result<i64> {
    let some = [-3, -2, -1, 0, 1, 2, 3, 4, 99, 100, YEAR_MS, YEAR_MS + 1, i64::MIN, i64::MAX];
    if u.ratio(1, 6)? { u.arbitrary() } else { Ok(*u.choose(&some)?) }
}

pub fn is_span(ms: i64, least: i64) -> bool {
    (least..=YEAR_MS).contains(&ms)
}

pub fn size(u: &mut Unstructured) -> Result<u32> {
    let some = [0, 1, 1023, 1024, 1025, u32::MAX];
    if u.ratio(1, 6)? { u.arbitrary() } else { Ok(*u.choose(&some)?) }
}

/// A string as C passes it, or none.
#[derive(Debug)]
pub struct Text(Option<CString>);

impl Text {
    pub fn of(text: &str) -> Self {
        Self(CString::new(text).ok())
    }

    fn from_bytes(bytes: Vec<u8>) -> Self {
        let until_nul: Vec<u8> = bytes.into_iter().take_while(|byte| *byte != 0).collect();
        Self(CString::new(until_nul).ok())
    }

    pub fn pointer(&self) -> *const c_char {
        self.0.as_ref().map_or(null(), |text| text.as_ptr())
    }

    pub fn is_text(&self, least: usize, most: usize) -> bool {
        let text = self.0.as_ref().and_then(|text| text.to_str().ok());
        text.is_some_and(|text| (least..=most).contains(&text.len()))
    }

    pub fn is_lock_name(&self) -> bool {
        let ends = self.0.as_ref().is_some_and(|t| t.as_bytes().ends_with(b"-lock-events"));
        self.is_text(1, 1024) && !ends
    }
}

fn bytes(u: &mut Unstructured) -> Result<Vec<u8>> {
    let length = u.int_in_range(0..=40usize)?.min(u.len());
    Ok(u.bytes(length)?.to_vec())
}

fn repeated(u: &mut Unstructured, lengths: &[usize]) -> Result<Vec<u8>> {
    Ok(vec![b'x'; *u.choose(lengths)?])
}

pub fn label(u: &mut Unstructured) -> Result<Text> {
    Ok(match u.int_in_range(0..=3u8)? {
        0 => Text(None),
        1 => Text::from_bytes(repeated(u, &[0, 1, 255, 256, 257, 5000])?),
        _ => Text::from_bytes(bytes(u)?),
    })
}

pub fn name(u: &mut Unstructured) -> Result<Text> {
    Ok(match u.int_in_range(0..=5u8)? {
        0 => Text(None),
        1 => Text::from_bytes(repeated(u, &[0, 1, 1023, 1024, 1025])?),
        2 => {
            let mut name = bytes(u)?;
            name.extend_from_slice(b"-lock-events");
            Text::from_bytes(name)
        }
        3 => Text::from_bytes(bytes(u)?),
        _ => Text::of("jobs"),
    })
}

/// URLs of parts that belong there, in any order, and others.
pub fn url(u: &mut Unstructured) -> Result<Text> {
    const PARTS: [&str; 33] = [
        "redis",
        "rediss",
        "unix",
        "valkey",
        "redis+unix",
        "http",
        "://",
        ":",
        "/",
        "//",
        "me",
        "@",
        ":hunter2@",
        "h",
        "[::1]",
        "[",
        "]",
        "127.0.0.1",
        ":6379",
        ":0",
        ":99999",
        "/1",
        "/x",
        "?",
        "db=",
        "3",
        "user=hunter2",
        "pass=hunter2",
        "&",
        "protocol=resp3",
        "%",
        "%00",
        "#insecure",
    ];
    if u.ratio(1, 8)? {
        return Ok(Text(None));
    }
    let mut url = Vec::new();
    for _ in 0..u.int_in_range(0..=10u8)? {
        match u.ratio(1, 8)? {
            true => url.extend(bytes(u)?),
            false => url.extend_from_slice(u.choose(&PARTS)?.as_bytes()),
        }
    }
    Ok(Text::from_bytes(url))
}
