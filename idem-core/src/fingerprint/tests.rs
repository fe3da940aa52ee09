use super::*;

fn digest(fill: u8) -> Digest {
    Digest([fill; 32])
}

#[test]
fn a_fingerprint_survives_its_durable_form() {
    let stored = Fingerprint::keyed(0x0102_0304, [7; 32]);
    let bytes = stored.to_bytes();
    assert_eq!(bytes[..5], [1, 1, 2, 3, 4]);
    let read = Fingerprint::from_bytes(&bytes).unwrap();
    assert_eq!((read.version(), read.secret_id(), read.to_bytes()), (1, 0x0102_0304, bytes));
}

#[test]
fn bytes_of_another_length_are_no_fingerprint() {
    for len in [0, 1, 5, 36, 38] {
        assert!(Fingerprint::from_bytes(&vec![1; len]).is_none(), "{len} bytes");
    }
}

#[test]
fn a_damaged_version_byte_does_not_make_a_fingerprint_that_equals_anything() {
    let mut bytes = Fingerprint::unkeyed(digest(7)).to_bytes();
    bytes[0] = 0;
    assert!(Fingerprint::from_bytes(&bytes).is_none());
    assert_eq!(Fingerprint::from_bytes(&[0; 37]).unwrap().version(), 0);
}

#[test]
fn no_fingerprint_equals_anything() {
    let some = Fingerprints::new(Fingerprint::unkeyed(digest(1)));
    assert_eq!(some.compare(&Fingerprint::NONE), Comparison::Same);
    assert_eq!(Fingerprints::none().compare(some.current()), Comparison::Same);
    assert_eq!(Fingerprints::none().compare(&Fingerprint::NONE), Comparison::Same);
}

#[test]
fn the_version_and_secret_of_the_record_say_which_to_compare() {
    let claim = Fingerprints::new(Fingerprint::keyed(2, [2; 32]))
        .with(Fingerprint::keyed(1, [1; 32]))
        .with(Fingerprint::unkeyed(digest(9)));
    assert_eq!(claim.compare(&Fingerprint::keyed(2, [2; 32])), Comparison::Same);
    assert_eq!(claim.compare(&Fingerprint::keyed(1, [1; 32])), Comparison::Same);
    assert_eq!(claim.compare(&Fingerprint::unkeyed(digest(9))), Comparison::Same);
    assert_eq!(claim.compare(&Fingerprint::keyed(1, [2; 32])), Comparison::Different);
    assert_eq!(claim.compare(&Fingerprint::keyed(3, [2; 32])), Comparison::Incomparable);
    let later = Fingerprint { version: 2, ..Fingerprint::keyed(2, [2; 32]) };
    assert_eq!(claim.compare(&later), Comparison::Incomparable);
}

#[test]
fn every_byte_of_the_digest_counts() {
    let claim = Fingerprints::new(Fingerprint::unkeyed(digest(0)));
    for at in 0..32 {
        let mut other = [0; 32];
        other[at] = 0x80;
        assert_eq!(claim.compare(&Fingerprint::unkeyed(Digest(other))), Comparison::Different, "byte {at}");
    }
}

#[test]
fn a_second_fingerprint_of_one_kind_and_none_are_left_out() {
    let first = Fingerprint::unkeyed(digest(1));
    let claim = Fingerprints::new(first).with(Fingerprint::unkeyed(digest(2))).with(Fingerprint::NONE);
    assert_eq!(claim.iter().count(), 1);
    assert_eq!(claim.compare(&Fingerprint::unkeyed(digest(2))), Comparison::Different);
}

#[test]
fn debug_shows_at_most_four_bytes_of_a_digest() {
    assert_eq!(format!("{:?}", digest(0xab)), "Digest(abababab..)");
    let shown = format!("{:?}", Fingerprints::new(Fingerprint::keyed(3, [0xab; 32])));
    assert_eq!(shown.matches("ab").count(), 4, "{shown}");
}
