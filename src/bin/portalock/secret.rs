//! Keeps the passwords of URLs out of what is said and handed on.

use url::Url;

/// What stands in the place of a password.
const HIDDEN: &str = "***";

/// The fields of a URL's query that have a password.
const FIELDS: [&str; 3] = ["pass", "password", "sentinel_password"];

/// A text with the passwords of all URLs in it concealed. What stands behind `pass=` or `password=`, up to
/// the end of the word, is taken for one, and so is all between `://` and the last `@`, and what should be a
/// port and is no number: better too much than too little.
pub fn conceal(text: &str) -> String {
    let text: String = text.split_inclusive(char::is_whitespace).map(conceal_field).collect();
    let Some((scheme, rest)) = text.split_once("://") else {
        return text;
    };
    // A password may have spaces and more than one `@` in it.
    match rest.rsplit_once('@') {
        Some((_, host)) => format!("{scheme}://{HIDDEN}@{host}"),
        None => text.split_inclusive(char::is_whitespace).map(conceal_host).collect(),
    }
}

/// What a person has typed and was not understood: it may be a URL, or a part of one.
pub fn conceal_value(value: &str) -> String {
    match value.contains("://") || value.contains('@') {
        true => HIDDEN.to_owned(),
        false => conceal(value),
    }
}

fn conceal_field(word: &str) -> String {
    let start = |field: &str| {
        let mark =
            |sign: char| word.find(&format!("{sign}{field}=")).map(|at| at + 2 + field.len());
        ['?', '&'].into_iter().filter_map(mark).min()
    };
    let Some(start) = FIELDS.into_iter().filter_map(start).min() else {
        return word.to_owned();
    };
    let end = word.trim_end().len();
    format!("{}{HIDDEN}{}", &word[..start], &word[end..])
}

/// Without an `@` a password stands where the port should be.
fn conceal_host(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let host = rest.split(['/', '?']).next().unwrap_or_default();
    let host = host.trim_end_matches(|c: char| !c.is_alphanumeric());
    let is_odd = |(_, port): (&str, &str)| !port.bytes().all(|byte| byte.is_ascii_digit());
    if host.starts_with('[') || !host.split_once(':').is_some_and(is_odd) {
        return word.to_owned();
    }
    let end = word.trim_end().len();
    format!("{scheme}://{HIDDEN}{}", &word[end..])
}

/// A URL without its password, the user kept; `None` if it is no URL.
pub fn without_password(url: &str) -> Option<String> {
    let (single, others) = split_hosts(url);
    let mut url = Url::parse(&single).ok()?;
    if url.password().is_some() {
        url.set_password(None).ok()?;
    }
    let is_secret = |name: &str| FIELDS.contains(&name);
    if url.query_pairs().any(|(name, _)| is_secret(&name)) {
        let kept: Vec<_> =
            url.query_pairs().into_owned().filter(|(name, _)| !is_secret(name)).collect();
        url.set_query(None);
        if !kept.is_empty() {
            url.query_pairs_mut().extend_pairs(kept);
        }
    }
    let mut rest = String::from(url);
    rest.insert_str(hosts_of(&rest).end, &others);
    Some(rest)
}

/// Where the hosts stand: from `://`, or the last `@` after that, to the path.
fn hosts_of(url: &str) -> std::ops::Range<usize> {
    let start = url.find("://").map_or(0, |at| at + 3);
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let start = url[start..end].rfind('@').map_or(start, |at| start + at + 1);
    start..end
}

/// A URL of several hosts as one of the first, and the others, with the comma before them.
fn split_hosts(url: &str) -> (String, String) {
    let hosts = hosts_of(url);
    match url[hosts.clone()].find(',') {
        Some(at) => {
            let others = hosts.start + at..hosts.end;
            let single = format!("{}{}", &url[..others.start], &url[others.end..]);
            (single, url[others].to_owned())
        }
        None => (url.to_owned(), String::new()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_in_texts_are_concealed_and_the_rest_is_kept() {
        for (text, shown) in [
            ("no such file: redis.url", "no such file: redis.url"),
            ("'redis://:hunter2@h:1/2' is odd", "'redis://***@h:1/2' is odd"),
            ("redis://me:hunt@er2@h\nUsage: portalock", "redis://***@h\nUsage: portalock"),
            ("at unix:///s?db=1&pass=hunter2&user=me: no", "at unix:///s?db=1&pass=*** no"),
            ("unix:///s?user=me&pass=hunt@er2", "unix:///s?user=me&pass=***"),
            ("unix:///s?password=a&pass=b\n", "unix:///s?password=***\n"),
            ("'redis://:my secret@h' is odd", "'redis://***@h' is odd"),
            ("redis://:hunter2 is odd", "redis://*** is odd"),
            ("redis://me:hunter2/1", "redis://***"),
            ("redis://h:6379/1: refused", "redis://h:6379/1: refused"),
            ("redis://[::1]:6379: refused", "redis://[::1]:6379: refused"),
            ("redis://h --url", "redis://h --url"),
        ] {
            assert_eq!(conceal(text), shown);
        }
    }

    #[test]
    fn a_value_that_may_be_a_url_is_not_shown() {
        for (value, shown) in
            [("redis://h", "***"), ("me:hunter2@h", "***"), ("--url", "--url"), ("5", "5")]
        {
            assert_eq!(conceal_value(value), shown);
        }
    }

    #[test]
    fn a_url_is_handed_on_without_its_password() {
        for (url, rest) in [
            ("redis://me:hunter2@h:1/2", "redis://me@h:1/2"),
            ("redis://:hunter2@h", "redis://h"),
            ("redis://h:1", "redis://h:1"),
            ("unix:///s?pass=hunter2", "unix:///s"),
            (
                "redis-sentinel://me:hunter2@h1:1,[::1]:2,h3/m/1?sentinel_user=s&sentinel_password=hunter2",
                "redis-sentinel://me@h1:1,[::1]:2,h3/m/1?sentinel_user=s",
            ),
            ("redis-sentinel://h1:1,h2/m", "redis-sentinel://h1:1,h2/m"),
            ("redis-cluster://me:hunter2@h1:1,[::1]:2,h3", "redis-cluster://me@h1:1,[::1]:2,h3"),
            ("redis://:hunter2@h?protocol=resp2", "redis://h?protocol=resp2"),
            ("unix:///s?db=1&pass=hunter2&user=me", "unix:///s?db=1&user=me"),
        ] {
            assert_eq!(without_password(url).as_deref(), Some(rest));
        }
        assert_eq!(without_password("hunter2"), None);
    }
}
