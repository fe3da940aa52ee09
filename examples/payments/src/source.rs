//! Test sources, as payment providers have them: what a card does is in its name.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::problem::Problem;

/// A source of money.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct Source {
    name: String,
    behaviour: Behaviour,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Behaviour {
    /// `tok_visa`
    Works,
    /// `tok_chargeDeclined`
    IsDeclined,
    /// `tok_processingError`
    Fails,
    /// `tok_flaky`
    FailsAtFirst,
    /// `tok_slow_MS`
    IsSlowBefore(Duration),
    /// `tok_slowafter_MS`
    IsSlowAfter(Duration),
    /// `tok_panic`
    Panics,
}

impl Source {
    const SLOWEST: Duration = Duration::from_hours(1);

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What happens before the money moves.
    pub async fn authorize(&self, attempt: u32) -> Result<(), Problem> {
        match self.behaviour {
            Behaviour::Works | Behaviour::IsSlowAfter(_) => Ok(()),
            Behaviour::IsDeclined => Err(Problem::declined()),
            Behaviour::FailsAtFirst if attempt > 1 => Ok(()),
            Behaviour::Fails | Behaviour::FailsAtFirst => Err(Problem::processing()),
            Behaviour::IsSlowBefore(time) => {
                tokio::time::sleep(time).await;
                Ok(())
            }
            Behaviour::Panics => panic!("the source is `tok_panic`"),
        }
    }

    /// What happens after the money has moved.
    pub async fn settle(&self) {
        if let Behaviour::IsSlowAfter(time) = self.behaviour {
            tokio::time::sleep(time).await;
        }
    }
}

impl TryFrom<String> for Source {
    type Error = String;

    fn try_from(name: String) -> Result<Self, String> {
        let behaviour = match name.as_str() {
            "tok_visa" => Behaviour::Works,
            "tok_chargeDeclined" => Behaviour::IsDeclined,
            "tok_processingError" => Behaviour::Fails,
            "tok_flaky" => Behaviour::FailsAtFirst,
            "tok_panic" => Behaviour::Panics,
            name => {
                if let Some(time) = name.strip_prefix("tok_slow_") {
                    Behaviour::IsSlowBefore(milliseconds(time)?)
                } else if let Some(time) = name.strip_prefix("tok_slowafter_") {
                    Behaviour::IsSlowAfter(milliseconds(time)?)
                } else {
                    return Err(
                        "there is no such source; use tok_visa, tok_chargeDeclined, tok_processingError, \
                                tok_flaky, tok_slow_MS, tok_slowafter_MS or tok_panic"
                            .into(),
                    );
                }
            }
        };
        Ok(Self { name, behaviour })
    }
}

impl From<Source> for String {
    fn from(source: Source) -> Self {
        source.name
    }
}

fn milliseconds(number: &str) -> Result<Duration, String> {
    let time = number.parse().ok().map(Duration::from_millis);
    time.filter(|time| *time <= Source::SLOWEST).ok_or_else(|| {
        let slowest = Source::SLOWEST.as_millis();
        format!("the time of a slow source is a number of milliseconds, at most {slowest}")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn behaviour(name: &str) -> Result<Behaviour, String> {
        Source::try_from(name.to_owned()).map(|source| source.behaviour)
    }

    #[test]
    fn the_name_says_what_a_source_does() {
        assert_eq!(behaviour("tok_visa"), Ok(Behaviour::Works));
        assert_eq!(behaviour("tok_slow_250"), Ok(Behaviour::IsSlowBefore(Duration::from_millis(250))));
        assert_eq!(behaviour("tok_slowafter_0"), Ok(Behaviour::IsSlowAfter(Duration::ZERO)));
    }

    #[test]
    fn what_is_no_source_is_refused() {
        for name in ["", "visa", "tok_VISA", "tok_slow", "tok_slow_", "tok_slow_-1", "tok_slowafter_3600001"]
        {
            assert!(behaviour(name).is_err(), "{name}");
        }
    }
}
