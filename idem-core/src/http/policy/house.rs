//! How errors look that are told before it is known which engine will be asked.

use std::sync::{Arc, Mutex, PoisonError};

use super::HttpPolicy;

/// What the engines of the process say of how errors look.
enum House {
    /// There is none.
    Nobody,
    /// All say this.
    One(Arc<HttpPolicy>),
    /// They differ.
    Many,
}

static HOUSE: Mutex<House> = Mutex::new(House::Nobody);

/// Hears what one more engine says.
pub(super) fn announce(policy: &Arc<HttpPolicy>) {
    let mut house = HOUSE.lock().unwrap_or_else(PoisonError::into_inner);
    match &*house {
        House::Nobody => *house = House::One(policy.clone()),
        House::One(known) if known.looks_like(policy) => {}
        House::One(_) | House::Many => *house = House::Many,
    }
}

impl HttpPolicy {
    /// How errors look that are told before it is known which engine will be asked, such as that of a body over every
    /// engine's limit: as all engines of the process have it, and the default where they differ.
    pub fn of_the_house() -> Arc<Self> {
        match &*HOUSE.lock().unwrap_or_else(PoisonError::into_inner) {
            House::One(policy) => policy.clone(),
            House::Nobody | House::Many => Arc::default(),
        }
    }

    fn looks_like(&self, other: &Self) -> bool {
        let alike = match (&self.render_errors, &other.render_errors) {
            (None, None) => true,
            (Some(one), Some(other)) => Arc::ptr_eq(one, other),
            _ => false,
        };
        alike && self.docs_link == other.docs_link
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::http::problem;

    fn stamped() -> HttpPolicy {
        let stamp = 7;
        HttpPolicy::default().render_errors(move |error| {
            let mut response = problem::render(error);
            response.headers_mut().insert("x-stamp", stamp.into());
            response
        })
    }

    #[test]
    fn policies_look_alike_if_errors_do() {
        let plain = HttpPolicy::default();
        let one = stamped();
        assert!(plain.looks_like(&HttpPolicy::default().max_len(5)));
        assert!(one.looks_like(&one.clone().mismatch_status(409)));
        assert!(!plain.looks_like(&one));
        assert!(!plain.looks_like(&HttpPolicy::default().docs_url("https://example.org")));
        assert!(!one.looks_like(&stamped()));
    }
}
