use std::collections::{BTreeMap, HashMap};

use idem_core::fingerprint::{Digest, of_value};
use proptest::prelude::*;
use serde::ser::{Error as _, SerializeMap as _, SerializeSeq as _};
use serde::{Serialize, Serializer};
use serde_json::json;

use crate::vectors::{documented, hex_of, read};

fn digest<T: Serialize + ?Sized>(value: &T) -> Digest {
    of_value(value).unwrap()
}

#[derive(Serialize)]
struct Line {
    sku: &'static str,
    quantity: u32,
}

#[derive(Serialize)]
struct Order {
    id: &'static str,
    amount: u64,
    lines: Vec<Line>,
    paid: bool,
    note: Option<&'static str>,
}

fn order(note: Option<&'static str>) -> Order {
    Order { id: "o-1", amount: 500_000, lines: vec![Line { sku: "A", quantity: 2 }], paid: false, note }
}

#[derive(Serialize)]
enum Method {
    Cash,
    Card(&'static str),
    Split(u8, u8),
    Transfer { iban: &'static str, bic: Option<&'static str> },
}

struct Bytes<'a>(&'a [u8]);

impl Serialize for Bytes<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_bytes(self.0)
    }
}

fn named(name: &str) -> Digest {
    match name {
        "unit" => digest(&()),
        "true" => digest(&true),
        "zero" => digest(&0),
        "minus one" => digest(&-1),
        "u64::MAX" => digest(&u64::MAX),
        "i128::MIN" => digest(&i128::MIN),
        "u128::MAX" => digest(&u128::MAX),
        "1.5_f64" => digest(&1.5_f64),
        "0.1_f64" => digest(&0.1_f64),
        "0.1_f32" => digest(&0.1_f32),
        "1e21_f64" => digest(&1e21_f64),
        "f64::MAX" => digest(&f64::MAX),
        "smallest f64" => digest(&f64::from_bits(1)),
        "2^60 as f64" => digest(&2_f64.powi(60)),
        "2^57 as f64" => digest(&2_f64.powi(57)),
        "2^53 as f64" => digest(&2_f64.powi(53)),
        "2^27 as f32" => digest(&2_f32.powi(27)),
        "2^24 as f32" => digest(&2_f32.powi(24)),
        "-0.001_f64" => digest(&-0.001_f64),
        "NaN" => digest(&f64::NAN),
        "infinity" => digest(&f32::INFINITY),
        "-infinity" => digest(&f64::NEG_INFINITY),
        "string" => digest("Đà Nẵng"),
        "char" => digest(&'x'),
        "bytes" => digest(&Bytes(&[0, 255])),
        "sequence" => digest(&vec![1, 2]),
        "tuple" => digest(&(1, "a", true)),
        "None" => digest(&None::<u8>),
        "Some(1)" => digest(&Some(1)),
        "Some(None)" => digest(&Some(None::<u8>)),
        "Some(Some(None))" => digest(&Some(Some(None::<u8>))),
        "Some(())" => digest(&Some(())),
        "map" => digest(&HashMap::from([("b", 2), ("aa", 3), ("a", 1)])),
        "map of integers" => digest(&HashMap::from([(2, false), (10, true)])),
        "map with None" => digest(&HashMap::from([("a", None::<u8>)])),
        "order" => digest(&order(None)),
        "order with a note" => digest(&order(Some("gift"))),
        "Method::Cash" => digest(&Method::Cash),
        "Method::Card" => digest(&Method::Card("visa")),
        "Method::Split" => digest(&Method::Split(1, 2)),
        "Method::Transfer" => digest(&Method::Transfer { iban: "DE00", bic: None }),
        "JSON value" => digest(&json!({"a": [null, 1.0, 2.5]})),
        _ => panic!("no value is named {name}"),
    }
}

#[test]
fn values_match_their_vectors() {
    let vectors = read(include_str!("../vectors/value.txt"));
    assert!(vectors.len() > 30, "only {} vectors read", vectors.len());
    for vector in vectors {
        let name = String::from_utf8(vector.what).unwrap();
        assert_eq!(hex_of(named(&name)), vector.digest, "{name}");
        assert_eq!(documented(b'v', &vector.encoded), vector.digest, "{name}");
    }
}

#[test]
fn integers_of_every_width_are_alike() {
    let all = [
        digest(&7_u8),
        digest(&7_u16),
        digest(&7_u32),
        digest(&7_u64),
        digest(&7_u128),
        digest(&7_i8),
        digest(&7_i16),
        digest(&7_i32),
        digest(&7_i64),
        digest(&7_i128),
        digest(&7_f32),
        digest(&7_f64),
    ];
    assert!(all.iter().all(|other| *other == all[0]));
    assert_ne!(digest(&9_007_199_254_740_992_u64), digest(&9_007_199_254_740_993_u64));
    assert_ne!(digest(&u128::MAX), digest(&(u128::MAX - 1)));
}

#[test]
fn zero_has_no_sign_and_every_nan_is_one() {
    assert_eq!(digest(&-0.0_f64), digest(&0));
    assert_eq!(digest(&-0.0_f32), digest(&0));
    assert_eq!(digest(&f64::NAN), digest(&-f64::NAN));
    assert_eq!(digest(&f64::NAN), digest(&f32::NAN));
}

#[test]
fn a_new_optional_field_leaves_old_fingerprints_as_they_were() {
    #[derive(Serialize)]
    struct Before {
        id: u8,
    }
    #[derive(Serialize)]
    struct After {
        note: Option<&'static str>,
        id: u8,
    }
    assert_eq!(digest(&Before { id: 1 }), digest(&After { note: None, id: 1 }));
    assert_ne!(digest(&Before { id: 1 }), digest(&After { note: Some(""), id: 1 }));
}

#[test]
fn null_and_absent_differ_where_the_type_tells_them_apart() {
    #[derive(Serialize)]
    struct Patch {
        #[expect(clippy::option_option, reason = "that is how a patch tells null from absent")]
        name: Option<Option<&'static str>>,
    }
    assert_ne!(digest(&Patch { name: None }), digest(&Patch { name: Some(None) }));
    assert_ne!(digest(&json!({})), digest(&json!({"name": null})));
    assert_ne!(digest(&HashMap::<&str, Option<u8>>::new()), digest(&HashMap::from([("name", None::<u8>)])));
    assert_ne!(digest(&[None, Some(1)]), digest(&[Some(1)]));
    assert_ne!(digest(&[None::<()>]), digest(&[Some(())]));
}

#[test]
fn a_flattened_struct_equals_one_that_is_written_out() {
    #[derive(Serialize)]
    struct Money {
        amount: u64,
        currency: &'static str,
        note: Option<&'static str>,
    }
    #[derive(Serialize)]
    struct Nested {
        id: u8,
        #[serde(flatten)]
        money: Money,
        #[serde(flatten)]
        more: HashMap<&'static str, u8>,
        last: Option<u8>,
    }
    #[derive(Serialize)]
    struct Flat {
        id: u8,
        amount: u64,
        currency: &'static str,
        x: u8,
        y: u8,
    }
    let money = Money { amount: 5, currency: "vnd", note: None };
    let nested = Nested { id: 1, money, more: HashMap::from([("x", 2), ("y", 3)]), last: None };
    assert_eq!(digest(&nested), digest(&Flat { id: 1, amount: 5, currency: "vnd", x: 2, y: 3 }));
    assert_eq!(digest(&nested), digest(&json!({"y": 3, "x": 2, "currency": "vnd", "amount": 5, "id": 1})));
}

#[test]
fn a_struct_equals_the_json_value_made_of_it() {
    let order = order(Some("gift"));
    assert_eq!(digest(&order), digest(&serde_json::to_value(&order).unwrap()));
}

#[test]
fn what_means_something_else_is_told_apart() {
    #[derive(Serialize)]
    struct Wrapped(u8);
    assert_eq!(digest(&Wrapped(1)), digest(&1));
    assert_ne!(digest(&Method::Cash), digest("Cash"));
    assert_ne!(digest(&Bytes(b"ab")), digest("ab"));
    assert_ne!(digest(&Bytes(&[1, 2])), digest(&[1, 2]));
    assert_ne!(digest(&1), digest("1"));
    assert_ne!(digest(&("a", "bc")), digest(&("ab", "c")));
    assert_ne!(digest(&[[1].as_slice(), &[]]), digest(&[[].as_slice(), &[1]]));
    assert_ne!(digest(&HashMap::from([("1", 0)])), digest(&HashMap::from([(1, 0)])));
    assert_ne!(digest(&[1, 2]), digest(&[2, 1]));
}

#[test]
fn display_is_hashed_like_the_string_it_makes() {
    struct Shown(usize);
    impl Serialize for Shown {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            assert!(serializer.is_human_readable());
            serializer.collect_str(&format_args!("{}{}", "é", "x".repeat(self.0)))
        }
    }
    for len in [0, 125, 126, 127, 20_000] {
        assert_eq!(digest(&Shown(len)), digest(&format!("é{}", "x".repeat(len))), "{len}");
        assert_eq!(digest(&[Shown(len)]), digest(&[format!("é{}", "x".repeat(len))]), "{len}");
    }
}

#[test]
fn a_large_sequence_is_hashed_like_a_small_one() {
    let items: Vec<_> = (0..50_000).map(|i| i % 7 + 1).collect();
    let encoded: String = items.iter().flat_map(|item| ["#".into(), item.to_string(), ";".into()]).collect();
    assert_eq!(hex_of(digest(&items)), documented(b'v', format!("[{encoded}]").as_bytes()));
    assert_eq!(hex_of(digest(&Some(&items))), documented(b'v', format!("[{encoded}]").as_bytes()));
    let object = format!("{{\"\x05items[{encoded}]}}");
    assert_eq!(hex_of(digest(&HashMap::from([("items", &items)]))), documented(b'v', object.as_bytes()));
    let object = format!("[{{\"\x01a[{encoded}]\"\x01b[{encoded}]}}]");
    for names in [["a", "b"], ["b", "a"]] {
        let pairs = names.map(|name| (name, &items));
        assert_eq!(hex_of(digest(&[Pairs(&pairs)])), documented(b'v', object.as_bytes()));
    }
}

#[test]
fn numbers_of_arbitrary_precision_and_raw_json_count_as_what_they_say() {
    // What `serde_json` makes of its numbers and raw values when other crates switch those features on.
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::Number")]
    struct Number {
        #[serde(rename = "$serde_json::private::Number")]
        text: &'static str,
    }
    #[derive(Serialize)]
    #[serde(rename = "$serde_json::private::RawValue")]
    struct Raw {
        #[serde(rename = "$serde_json::private::RawValue")]
        text: String,
    }
    let raw = |text: &str| Raw { text: text.into() };
    assert_eq!(digest(&Number { text: "150e-1" }), digest(&15));
    assert_eq!(digest(&[Number { text: "-0.1" }]), digest(&[-0.1]));
    assert_ne!(digest(&Number { text: "9007199254740993" }), digest(&Number { text: "9007199254740992" }));
    assert_eq!(
        digest(&("x", raw(r#" {"b": [1.0, null], "a": "é"} "#), 1)),
        digest(&("x", json!({"a": "é", "b": [1, null]}), 1))
    );
    // Without a canonical form: the text as it is, told apart from a string.
    let broken = [r#"{"a":1,"a":2}"#, r#"{"a":1, "a":2}"#, "[1,", "{\"a\":[{"];
    for (at, text) in broken.iter().enumerate() {
        assert_ne!(digest(&raw(text)), digest(text));
        assert_eq!(digest(&(raw(text), 1)), digest(&(raw(text), 1)));
        assert!(broken[at + 1..].iter().all(|other| digest(&raw(text)) != digest(&raw(other))));
        let beside = |last: u8| HashMap::from([("z", (raw(text), last)), ("a", (raw("1"), last))]);
        assert_eq!(digest(&beside(1)), digest(&beside(1)));
        assert_ne!(digest(&beside(1)), digest(&beside(2)));
    }
    let long = format!("[\"{}\"]", "x".repeat(50_000));
    assert_eq!(digest(&raw(&long)), digest(&serde_json::from_str::<serde_json::Value>(&long).unwrap()));
}

#[derive(Serialize)]
struct Chain(Option<Box<Chain>>);

fn chain(links: usize) -> Chain {
    (1..links).fold(Chain(None), |chain, _| Chain(Some(Box::new(chain))))
}

#[test]
fn a_value_nested_too_deeply_is_an_error_and_not_a_stack_overflow() {
    // Two levels a link: the newtype and the `Some`.
    assert!(of_value(&chain(64)).is_ok());
    for links in [65, 5_000] {
        let error = of_value(&chain(links)).unwrap_err().to_string();
        assert!(error.ends_with("nested more than 128 levels deep"), "{error}");
    }
    let lists = |depth: usize| (1..depth).fold(json!([]), |inner, _| json!([inner]));
    assert!(of_value(&lists(128)).is_ok());
    assert!(of_value(&lists(129)).is_err());
}

struct Refuses;

impl Serialize for Refuses {
    fn serialize<S: Serializer>(&self, _: S) -> Result<S::Ok, S::Error> {
        Err(S::Error::custom("card 4242 4242 is not for you"))
    }
}

#[test]
fn an_error_names_the_type_and_never_the_value() {
    let error = of_value(&("4242", Refuses)).unwrap_err();
    let shown = format!("{error} {error:?}");
    assert!(shown.contains("Refuses"), "{shown}");
    assert!(shown.contains("its `Serialize` implementation reported an error"), "{shown}");
    assert!(!shown.contains("4242"), "{shown}");
    let mut hasher = idem_core::fingerprint::Hasher::new("op");
    let error = hasher.value("card", &Refuses).unwrap_err().to_string();
    assert!(error.starts_with("could not fingerprint `card`, a value of type `"), "{error}");
}

#[test]
fn an_error_that_an_implementation_swallows_stays_an_error() {
    struct Swallows(u8);
    impl Serialize for Swallows {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            if self.0 < 2 {
                let mut map = serializer.serialize_map(Some(2))?;
                let nested = HashMap::from([("y", ("a", Refuses)), ("x", ("b", Refuses))]);
                let _ = if self.0 == 0 {
                    map.serialize_entry("b", &nested)
                } else {
                    map.serialize_entry(&(1, Refuses), "b")
                };
                let _ = map.serialize_entry("a", &1);
                map.end()
            } else {
                let mut seq = serializer.serialize_seq(None)?;
                let _ = seq.serialize_element(&Some(vec![Swallows(0), Swallows(1)]));
                let _ = seq.serialize_element(&1);
                seq.end()
            }
        }
    }
    for how in 0..3 {
        assert!(of_value(&Swallows(how)).is_err(), "{how}");
        assert!(of_value(&HashMap::from([("z", Swallows(how)), ("a", Swallows(how))])).is_err(), "{how}");
    }
}

#[test]
fn a_map_whose_names_and_values_do_not_alternate_is_an_error() {
    struct Odd(&'static str);
    impl Serialize for Odd {
        fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
            let mut map = serializer.serialize_map(None)?;
            for step in self.0.chars() {
                let _ = if step == 'k' { map.serialize_key("b") } else { map.serialize_value("v") };
            }
            map.end()
        }
    }
    assert_eq!(digest(&Odd("kv")), digest(&json!({"b": "v"})));
    for steps in ["k", "v", "kk", "kvk", "kvv", "vk", "kkvv"] {
        assert!(of_value(&Odd(steps)).is_err(), "{steps}");
        assert!(of_value(&HashMap::from([("b", Odd(steps)), ("a", Odd("kv"))])).is_err(), "{steps}");
    }
}

/// A map that is written in this order.
struct Pairs<'a, T>(&'a [(&'a str, T)]);

impl<T: Serialize> Serialize for Pairs<'_, T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.0.iter().map(|(name, value)| (name, value)))
    }
}

#[test]
fn two_entries_of_one_name_both_count_in_any_order() {
    assert_eq!(digest(&Pairs(&[("a", 1), ("a", 2)])), digest(&Pairs(&[("a", 2), ("a", 1)])));
    assert_ne!(digest(&Pairs(&[("a", 1), ("a", 2)])), digest(&Pairs(&[("a", 2)])));
    assert_ne!(digest(&Pairs(&[("a", 1), ("a", 1)])), digest(&Pairs(&[("a", 1)])));
}

/// A value of serde's data model.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Model {
    Unit,
    Bool(bool),
    Int(i128),
    Text(String),
    Bytes(Vec<u8>),
    None,
    Some(Box<Model>),
    Unnamed(u8),
    Variant(u8, Box<Model>),
    Seq(Vec<Model>),
    Map(BTreeMap<Model, Model>),
}

const VARIANTS: [&str; 3] = ["", "a", "b"];

impl Model {
    /// `Some` is its content unless that could be taken for `None`.
    fn meaning(&self) -> Self {
        match self {
            Self::Some(inner) => match inner.meaning() {
                inner @ (Self::None | Self::Some(_)) => Self::Some(Box::new(inner)),
                inner => inner,
            },
            Self::Variant(name, inner) => Self::Variant(*name, Box::new(inner.meaning())),
            Self::Seq(items) => Self::Seq(items.iter().map(Self::meaning).collect()),
            Self::Map(map) => Self::Map(map.iter().map(|(k, v)| (k.meaning(), v.meaning())).collect()),
            other => other.clone(),
        }
    }
}

impl Serialize for Model {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let variant = |name: &u8| VARIANTS[usize::from(*name) % VARIANTS.len()];
        match self {
            Self::Unit => serializer.serialize_unit(),
            Self::Bool(value) => serializer.serialize_bool(*value),
            Self::Int(value) => match i8::try_from(*value) {
                Ok(value) => serializer.serialize_i8(value),
                Err(_) => serializer.serialize_i128(*value),
            },
            Self::Text(text) => serializer.serialize_str(text),
            Self::Bytes(bytes) => serializer.serialize_bytes(bytes),
            Self::None => serializer.serialize_none(),
            Self::Some(inner) => serializer.serialize_some(inner),
            Self::Unnamed(name) => serializer.serialize_unit_variant("Model", 0, variant(name)),
            Self::Variant(name, inner) => {
                serializer.serialize_newtype_variant("Model", 0, variant(name), inner)
            }
            Self::Seq(items) => serializer.collect_seq(items),
            Self::Map(map) => serializer.collect_map(map),
        }
    }
}

fn model() -> impl Strategy<Value = Model> {
    let leaf = prop_oneof![
        Just(Model::Unit),
        Just(Model::None),
        any::<bool>().prop_map(Model::Bool),
        (-2_i128..3).prop_map(Model::Int),
        any::<i128>().prop_map(Model::Int),
        "[\\[\\]{}#;0nob\u{0}\u{1}\"]{0,3}".prop_map(Model::Text),
        proptest::collection::vec(any::<u8>(), 0..3).prop_map(Model::Bytes),
        (0_u8..3).prop_map(Model::Unnamed),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            inner.clone().prop_map(|inner| Model::Some(Box::new(inner))),
            (0_u8..3, inner.clone()).prop_map(|(name, inner)| Model::Variant(name, Box::new(inner))),
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Model::Seq),
            // Names that mean the same would make two entries of one: left to a test of its own.
            proptest::collection::btree_map(inner.clone().prop_map(|name| name.meaning()), inner, 0..4)
                .prop_map(Model::Map),
        ]
    })
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(200) })]

    #[test]
    fn values_have_one_digest_exactly_if_they_mean_the_same(all in proptest::collection::vec(model(), 16)) {
        let digests: Vec<_> = all.iter().map(digest).collect();
        for (at, one) in all.iter().enumerate() {
            for (of, other) in all.iter().enumerate().take(at) {
                let same = one.meaning() == other.meaning();
                prop_assert_eq!(same, digests[at] == digests[of], "{:?} and {:?}", one, other);
            }
        }
    }

    #[test]
    fn the_order_of_a_map_never_matters(
        entries in proptest::collection::btree_map("[a-c]{0,3}|\\PC{0,150}", (any::<u8>(), "[a-c]{0,3}"), 0..12),
    ) {
        let forwards: HashMap<_, _> = entries.clone().into_iter().collect();
        let backwards: HashMap<_, _> = entries.clone().into_iter().rev().collect();
        prop_assert_eq!(digest(&forwards), digest(&entries));
        prop_assert_eq!(digest(&backwards), digest(&entries));
    }

    #[test]
    fn floats_are_alike_exactly_if_they_are_equal(one: f64, other: f64, near in any::<f64>()) {
        let next = f64::from_bits(near.to_bits() ^ 1);
        for (one, other) in [(one, other), (near, next), (one, one)] {
            #[expect(clippy::float_cmp, reason = "nothing else is equal")]
            let same = one == other || (one.is_nan() && other.is_nan());
            prop_assert_eq!(digest(&one) == digest(&other), same, "{:e} and {:e}", one, other);
        }
        let finite = one.is_finite();
        prop_assert_eq!(digest(&one) == digest(&serde_json::to_value(one).unwrap()), finite);
    }
}
