//! Answers come back byte for byte.

use bytes::Bytes;

use crate::answer::{Answer, AnswerKind, Codec};
use crate::conformance::check::{Verdict, check};
use crate::conformance::trial::{LONG, Trial, claim, keep};

async fn comes_back(t: &Trial, key: &str, answer: &Answer) -> Verdict {
    let id = t.id(key)?;
    t.finish(&id, claim("payload"), answer, keep(LONG)).await?;
    t.claim(&id, &claim("payload")).await?.is_completed(answer)?;
    check(t.find(&id).await?.answer.as_ref() == Some(answer), "the answer is found as it was")
}

/// An empty answer is an answer, not the lack of one.
pub(crate) async fn an_empty_answer_is_an_answer(t: &Trial) -> Verdict {
    comes_back(t, "no-payload", &Answer::build(AnswerKind::Full, Codec::JsonOk, 0, |_| ())).await?;
    comes_back(t, "tombstone", &Answer::tombstone(Codec::Http)).await?;
    comes_back(t, "no-bytes", &Answer::from_bytes(Bytes::new())).await
}

/// Every byte value comes back: an answer is not text.
pub(crate) async fn every_byte_of_an_answer_comes_back(t: &Trial) -> Verdict {
    let bytes: Vec<u8> = (0..=255).chain((0..=255).rev()).collect();
    comes_back(t, "all", &Answer::from_bytes(bytes)).await?;
    comes_back(t, "zeros", &Answer::from_bytes(vec![0; 64])).await?;
    comes_back(t, "not-utf-8", &Answer::from_bytes(vec![0xff, 0xc0, 0x80, 0xed, 0xa0, 0x80])).await?;
    comes_back(t, "quotes", &Answer::from_bytes(&b"' \" \\ ; -- % \r\n \x1a ?"[..])).await
}

/// An answer of a mebibyte comes back whole, also one that cannot be compressed.
pub(crate) async fn a_large_answer_comes_back_whole(t: &Trial) -> Verdict {
    comes_back(t, "same", &Answer::from_bytes(vec![b'x'; 1 << 20])).await?;
    let mut word = 0x9e37_79b9_7f4a_7c15_u64;
    let noise: Vec<u8> = std::iter::repeat_with(|| {
        word ^= word << 13;
        word ^= word >> 7;
        word ^= word << 17;
        word.to_le_bytes()
    })
    .take((1 << 20) / 8)
    .flatten()
    .collect();
    comes_back(t, "noise", &Answer::from_bytes(noise)).await
}
