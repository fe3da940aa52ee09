use std::fmt::Write as _;

use proptest::prelude::*;

use super::*;
use crate::fingerprint::Digest;

fn digest(boundary: &str, body: &[u8]) -> Option<Digest> {
    let mut hasher = Hasher::new("op");
    hash(&mut hasher, boundary.as_bytes(), body)?;
    Some(hasher.finish())
}

/// A body of parts, each its header lines and its content.
fn body(boundary: &str, parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut body = Vec::new();
    for (headers, content) in parts {
        body.extend_from_slice(format!("--{boundary}\r\n{headers}\r\n\r\n").as_bytes());
        body.extend_from_slice(content);
        body.extend_from_slice(b"\r\n");
    }
    body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
    body
}

fn one(headers: &str, content: &[u8]) -> Option<Digest> {
    digest("b", &body("b", &[(headers, content)]))
}

const AMOUNT: &str = "Content-Disposition: form-data; name=\"amount\"";
const FILE: &str =
    "Content-Disposition: form-data; name=\"file\"; filename=\"a.png\"\r\nContent-Type: image/png";

#[test]
fn a_renamed_boundary_does_not_count() {
    let parts = [(AMOUNT, &b"5"[..]), (FILE, b"\x00\r\n--\xff\r\n"), ("", b"")];
    let first = digest("b", &body("b", &parts));
    assert!(first.is_some());
    assert_eq!(first, digest("----Other0815", &body("----Other0815", &parts)));
}

#[test]
fn order_name_file_name_type_content_and_number_of_parts_count() {
    let (a, b) = ((AMOUNT, &b"5"[..]), (FILE, &b"png"[..]));
    let of = |parts: &[(&str, &[u8])]| digest("b", &body("b", parts)).unwrap();
    let base = of(&[a, b]);
    assert_ne!(base, of(&[b, a]));
    assert_ne!(base, of(&[a]));
    assert_ne!(base, of(&[a, b, b]));
    assert_ne!(base, of(&[(AMOUNT, b"6"), b]));
    assert_ne!(base, of(&[(&AMOUNT.replace("amount", "fee"), b"5"), b]));
    assert_ne!(base, of(&[a, (&FILE.replace("a.png", "b.png"), b"png")]));
    assert_ne!(base, of(&[a, (&FILE.replace("image/png", "image/gif"), b"png")]));
    assert_ne!(base, of(&[a, (&FILE.replace("; filename=\"a.png\"", ""), b"png")]));
    assert_ne!(base, of(&[a, (&format!("{FILE}\r\nX-Checksum: 1"), b"png")]));
}

#[test]
fn spelling_of_header_names_quotes_and_blanks_do_not_count() {
    let base = one(AMOUNT, b"5");
    for same in [
        "content-disposition: Form-Data; NAME=amount",
        "CONTENT-DISPOSITION:form-data ;name = \"amount\" ; ",
        "Content-Length: 1\r\nContent-Disposition: form-data; name=\"amount\"",
    ] {
        assert_eq!(one(same, b"5"), base, "{same}");
    }
    assert_ne!(one("Content-Disposition: form-data; name=\"Amount\"", b"5"), base);
    assert_eq!(one("Content-Type: Text/Plain; a=b", b""), one("content-type:text/plain ;a=b", b""));
    assert_ne!(one("Content-Type: text/plain; a=b", b""), one("Content-Type: text/plain; a=B", b""));
}

#[test]
fn names_may_hold_what_people_write_there() {
    let name = |text: &str| one(&format!("Content-Disposition: form-data; name=\"{text}\""), b"");
    for (a, b) in
        [("a;b", "a"), ("a=b", "a"), ("é", "e"), (r#"a\"b"#, r#"a\\"b"#), (r"C:\x", r"C:\\x"), ("", "a")]
    {
        assert!(name(a).is_some(), "{a}");
        assert_ne!(name(a), name(b), "{a} {b}");
    }
    let both = one("Content-Disposition: form-data; name=a; filename=x; filename*=UTF-8''x", b"");
    assert!(both.is_some());
    assert_ne!(both, one("Content-Disposition: form-data; name=a; filename=x", b""));
}

#[test]
fn what_is_malformed_cut_short_or_ambiguous_has_no_parts() {
    let whole = body("b", &[(AMOUNT, b"5"), (FILE, b"png")]);
    for len in 0..whole.len() - 2 {
        assert_eq!(digest("b", &whole[..len]), None, "{len}");
    }
    // The line after the last boundary may be left out.
    assert_eq!(digest("b", &whole[..whole.len() - 2]), digest("b", &whole));
    for malformed in [
        &b"preamble\r\n--b\r\n\r\n\r\n--b--"[..],
        b"\r\n--b\r\n\r\n\r\n--b--",
        b"--b\r\n\r\n\r\n--b--epilogue",
        b"--b\r\n\r\n\r\n--b--\r\n\r\n",
        b"--b \r\n\r\n\r\n--b--",
        b"--b\n\nx\n--b--\n",
        b"--b\r\nName: a\n\r\n\r\n--b--",
        b"--b\r\nno colon\r\n\r\n\r\n--b--",
        b"--b\r\n: empty\r\n\r\n\r\n--b--",
        b"--b\r\nA: b\r\n folded\r\n\r\n\r\n--b--",
        b"--b\r\n\r\nx\r\n--bx\r\n--b--",
        b"--c\r\n\r\n\r\n--c--",
    ] {
        assert_eq!(digest("b", malformed), None, "{}", malformed.escape_ascii());
    }
    for headers in [
        "Content-Type: a/b\r\nContent-Type: a/c",
        "Content-Disposition: form-data; name=a\r\nContent-Disposition: form-data; name=b",
        "Content-Disposition: form-data; name=a; name=b",
        "Content-Disposition: form-data; name=a; filename=b; Filename=c",
        "Content-Disposition: form-data; name=\"a",
        "Content-Disposition: form-data; name=\"a\"b",
        "Content-Disposition: form-data; name",
        "Content-Disposition: form-data; name=",
        "Content-Disposition: form-data; =a",
    ] {
        assert_eq!(one(headers, b""), None, "{headers}");
    }
    assert_eq!(one(&["A: b"; 33].join("\r\n"), b""), None);
    assert!(one(&["A: b"; 32].join("\r\n"), b"").is_some());
}

#[test]
fn a_body_without_parts_is_read_and_is_not_an_empty_one() {
    assert!(digest("b", b"--b--").is_some());
    assert_eq!(digest("b", b""), None);
}

#[test]
fn the_boundary_is_read_from_the_media_type() {
    for (media_type, expected) in [
        ("multipart/form-data; boundary=abc", Some("abc")),
        ("Multipart/Mixed;charset=utf-8;Boundary=\"a b\"", Some("a b")),
        ("multipart/form-data; boundary=\"=_'()+,-./:?\"", Some("=_'()+,-./:?")),
        ("multipart/form-data; boundary=a=b", Some("a=b")),
        ("multipart/form-data", None),
        ("multipart/form-data; boundary=", None),
        ("multipart/form-data; boundary=\"\"", None),
        ("multipart/form-data; boundary=\"a \"", None),
        ("multipart/form-data; boundary=a; boundary=b", None),
        ("multipart/form-data; boundary=\u{e9}", None),
        ("multipart/form-data; boundary=\"a\\\\b\"", None),
        ("application/json; boundary=abc", None),
    ] {
        let expected = expected.map(|text| text.as_bytes().to_vec());
        assert_eq!(boundary(media_type.as_bytes()), expected, "{media_type}");
    }
    let long = |len: usize| boundary(format!("multipart/a; boundary={}", "x".repeat(len)).as_bytes());
    assert!(long(70).is_some() && long(71).is_none());
}

fn any_parts() -> impl Strategy<Value = Vec<(String, Vec<u8>)>> {
    // No dashes: a content that holds the boundary is another body.
    let content = proptest::collection::vec(prop_oneof![0_u8..b'-', b'.'..=255], 0..60);
    let headers =
        ("[a-z]{0,8}", proptest::option::of("[a-z. ]{0,8}"), proptest::option::of("[a-z]{1,5}/[a-z]{1,5}"))
            .prop_map(|(name, file, media_type)| {
                let mut lines = format!("Content-Disposition: form-data; name=\"{name}\"");
                if let Some(file) = file {
                    let _ = write!(lines, "; filename=\"{file}\"");
                }
                if let Some(media_type) = media_type {
                    let _ = write!(lines, "\r\nContent-Type: {media_type}");
                }
                lines
            });
    proptest::collection::vec((headers, content), 0..6)
}

fn of(boundary: &str, parts: &[(String, Vec<u8>)]) -> Option<Digest> {
    let parts: Vec<_> =
        parts.iter().map(|(headers, content)| (headers.as_str(), content.as_slice())).collect();
    digest(boundary, &body(boundary, &parts))
}

proptest! {
    #[test]
    fn no_input_panics(boundary in "[ -~]{1,12}", body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = digest(&boundary, &body);
        let mut begun = format!("--{boundary}\r\nContent-Disposition: ").into_bytes();
        begun.extend_from_slice(&body);
        let _ = digest(&boundary, &begun);
        let _ = super::boundary(&body);
    }

    #[test]
    fn any_parts_are_the_same_under_any_boundary(
        parts in any_parts(),
        a in "[a-zA-Z0-9-]{1,40}",
        b in "[a-zA-Z0-9-]{1,40}",
    ) {
        let first = of(&a, &parts);
        prop_assert!(first.is_some());
        prop_assert_eq!(first, of(&b, &parts));
    }

    #[test]
    fn two_lists_of_parts_are_the_same_only_if_they_are_equal(a in any_parts(), b in any_parts()) {
        prop_assert_eq!(of("x-y", &a) == of("x-y", &b), a == b);
    }

    #[test]
    fn swapped_parts_differ(parts in any_parts(), at in any::<prop::sample::Index>()) {
        prop_assume!(parts.len() > 1);
        let at = at.index(parts.len() - 1);
        let mut swapped = parts.clone();
        swapped.swap(at, at + 1);
        prop_assert_eq!(of("b", &parts) == of("b", &swapped), parts == swapped);
    }
}
