//! RESP3, as far as the broker needs it.

use redis_protocol::resp3::decode::complete::decode;
use redis_protocol::resp3::encode::complete::encode;
use redis_protocol::resp3::types::{OwnedFrame as Frame, Resp3Frame};

type Words = Vec<Vec<u8>>;

/// The first whole command, and how many bytes it takes; `Err` if these bytes are none.
pub(super) fn read_command(bytes: &[u8]) -> Result<Option<(Words, usize)>, ()> {
    let Some((frame, length)) = decode(bytes).map_err(drop)? else {
        return Ok(None);
    };
    let Frame::Array { data, .. } = frame else {
        return Err(());
    };
    let word = |frame| match frame {
        Frame::BlobString { data, .. } => Ok(data),
        _ => Err(()),
    };
    let words: Result<_, _> = data.into_iter().map(word).collect();
    Ok(Some((words?, length)))
}

/// Appends a frame.
pub(super) fn write(out: &mut Vec<u8>, frame: &Frame) {
    let start = out.len();
    out.resize(start + frame.encode_len(false), 0);
    // There is exactly as much room as it needs.
    let length = encode(&mut out[start..], frame, false).unwrap_or(0);
    out.truncate(start + length);
}

pub(super) fn bulk(bytes: impl Into<Vec<u8>>) -> Frame {
    Frame::BlobString { data: bytes.into(), attributes: None }
}

pub(super) fn number(number: usize) -> Frame {
    Frame::from(i64::try_from(number).unwrap_or(i64::MAX))
}

pub(super) fn ok() -> Frame {
    simple("OK")
}

pub(super) fn simple(text: &str) -> Frame {
    Frame::SimpleString { data: text.into(), attributes: None }
}

pub(super) fn error(text: &str) -> Frame {
    Frame::SimpleError { data: text.to_owned(), attributes: None }
}

pub(super) fn list(data: Vec<Frame>) -> Frame {
    Frame::Array { data, attributes: None }
}

pub(super) fn push(data: Vec<Frame>) -> Frame {
    Frame::Push { data, attributes: None }
}

pub(super) fn map(pairs: impl IntoIterator<Item = (&'static str, Frame)>) -> Frame {
    let data = pairs.into_iter().map(|(key, value)| (bulk(key), value)).collect();
    Frame::Map { data, attributes: None }
}
