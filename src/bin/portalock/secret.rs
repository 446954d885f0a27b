//! Keeps the passwords of URLs out of what is said and handed on.

use url::Url;

/// What stands in the place of a password.
const HIDDEN: &str = "***";

/// A text with the passwords of all URLs in it concealed. Whatever stands between `://` and the last `@` of
/// a word, or behind `pass=` or `password=`, is taken for one: better too much than too little.
pub fn conceal(text: &str) -> String {
    text.split_inclusive(char::is_whitespace).map(conceal_word).collect()
}

fn conceal_word(word: &str) -> String {
    let Some((scheme, rest)) = word.split_once("://") else {
        return word.to_owned();
    };
    let rest = match rest.rsplit_once('@') {
        Some((_, host)) => format!("{HIDDEN}@{host}"),
        None => rest.to_owned(),
    };
    let Some((path, query)) = rest.split_once('?') else {
        return format!("{scheme}://{rest}");
    };
    let fields: Vec<_> = query.split('&').map(conceal_field).collect();
    format!("{scheme}://{path}?{}", fields.join("&"))
}

fn conceal_field(field: &str) -> String {
    match field.split_once('=') {
        Some((name @ ("pass" | "password"), _)) => format!("{name}={HIDDEN}"),
        _ => field.to_owned(),
    }
}

/// A URL without its password, the user kept; `None` if it is no URL.
pub fn without_password(url: &str) -> Option<String> {
    let mut url = Url::parse(url).ok()?;
    if url.password().is_some() {
        url.set_password(None).ok()?;
    }
    let is_secret = |name: &str| matches!(name, "pass" | "password");
    if url.query_pairs().any(|(name, _)| is_secret(&name)) {
        let kept: Vec<_> =
            url.query_pairs().into_owned().filter(|(name, _)| !is_secret(name)).collect();
        url.set_query(None);
        if !kept.is_empty() {
            url.query_pairs_mut().extend_pairs(kept);
        }
    }
    Some(url.into())
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
            ("unix:///s?db=1&pass=hunter2&user=me", "unix:///s?db=1&pass=***&user=me"),
            ("redis://h --url", "redis://h --url"),
        ] {
            assert_eq!(conceal(text), shown);
        }
    }

    #[test]
    fn a_url_is_handed_on_without_its_password() {
        for (url, rest) in [
            ("redis://me:hunter2@h:1/2", "redis://me@h:1/2"),
            ("redis://:hunter2@h", "redis://h"),
            ("redis://h:1", "redis://h:1"),
            ("unix:///s?pass=hunter2", "unix:///s"),
            ("unix:///s?db=1&pass=hunter2&user=me", "unix:///s?db=1&user=me"),
        ] {
            assert_eq!(without_password(url).as_deref(), Some(rest));
        }
        assert_eq!(without_password("hunter2"), None);
    }
}
