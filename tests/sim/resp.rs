//! RESP3, as far as the node writes it.

fn head(out: &mut Vec<u8>, sign: u8, number: i64) {
    out.push(sign);
    out.extend(number.to_string().as_bytes());
    out.extend(b"\r\n");
}

pub fn simple(out: &mut Vec<u8>, text: &str) {
    out.push(b'+');
    out.extend(text.as_bytes());
    out.extend(b"\r\n");
}

pub fn int(out: &mut Vec<u8>, number: i64) {
    head(out, b':', number);
}

pub fn bulk(out: &mut Vec<u8>, bytes: &[u8]) {
    head(out, b'$', bytes.len() as i64);
    out.extend(bytes);
    out.extend(b"\r\n");
}

pub fn list(out: &mut Vec<u8>, items: i64) {
    head(out, b'*', items);
}

pub fn push_message(out: &mut Vec<u8>, channel: &[u8], payload: &[u8]) {
    head(out, b'>', 3);
    bulk(out, b"message");
    bulk(out, channel);
    bulk(out, payload);
}

pub fn push_subscription(out: &mut Vec<u8>, kind: &[u8], channel: &[u8], count: usize) {
    head(out, b'>', 3);
    bulk(out, kind);
    bulk(out, channel);
    int(out, count as i64);
}
