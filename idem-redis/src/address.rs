//! Addresses: what one URL says of where the records are.

/// Where they are.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Address {
    Server(String),
    Sentinel { name: String, sentinels: Vec<String>, primary: String },
    Cluster(Vec<String>),
}

impl Address {
    /// Reads a URL. That of one server is left to the client; `Err` says what is wrong with another.
    pub(crate) fn read(url: &str) -> Result<Self, &'static str> {
        let Some(((scheme, kind), rest)) =
            url.split_once("://").and_then(|(scheme, rest)| Some((scheme.split_once('+')?, rest)))
        else {
            return Ok(Self::Server(url.to_owned()));
        };
        let (place, query) = match rest.split_once('?') {
            Some((place, query)) => (place, format!("?{query}")),
            None => (rest, String::new()),
        };
        let (place, path) = place.split_once('/').unwrap_or((place, ""));
        let (user, hosts) = match place.rsplit_once('@') {
            Some((user, hosts)) => (format!("{user}@"), hosts),
            None => (String::new(), place),
        };
        let urls = |user: &str, port: u16| -> Result<Vec<String>, &'static str> {
            hosts
                .split(',')
                .map(|host| match host {
                    "" => Err("a host has no name"),
                    _ if has_port(host) => Ok(format!("{scheme}://{user}{host}{query}")),
                    _ => Ok(format!("{scheme}://{user}{host}:{port}{query}")),
                })
                .collect()
        };
        match kind {
            "sentinel" => {
                let (name, database) = path.split_once('/').unwrap_or((path, ""));
                if name.is_empty() {
                    return Err("the path begins with the name by which the Sentinels know the primary");
                }
                Ok(Self::Sentinel {
                    name: name.to_owned(),
                    // They have users of their own, if any.
                    sentinels: urls("", 26379)?,
                    primary: format!("{scheme}://{user}primary/{database}{query}"),
                })
            }
            "cluster" if path.is_empty() => Ok(Self::Cluster(urls(&user, 6379)?)),
            "cluster" => Err("a cluster has no databases"),
            _ => Ok(Self::Server(url.to_owned())),
        }
    }
}

/// Whether a host is followed by its port; an address of IPv6 has colons, too, and brackets around them.
fn has_port(host: &str) -> bool {
    host.rsplit_once(':').is_some_and(|(_, port)| !port.ends_with(']'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_url_may_name_sentinels_and_the_primary_that_they_know() {
        let read =
            Address::read("rediss+sentinel://app:pass@one,two:7000,[::1]/main/3?protocol=resp3").unwrap();
        let sentinels = ["one:26379", "two:7000", "[::1]:26379"];
        let expected = Address::Sentinel {
            name: "main".into(),
            sentinels: sentinels.map(|host| format!("rediss://{host}?protocol=resp3")).to_vec(),
            primary: "rediss://app:pass@primary/3?protocol=resp3".into(),
        };
        assert_eq!(read, expected);
        let Ok(Address::Sentinel { primary, .. }) = Address::read("valkey+sentinel://one/main") else {
            panic!("no Sentinels");
        };
        assert_eq!(primary, "valkey://primary/");
    }

    #[test]
    fn one_url_may_name_the_nodes_of_a_cluster() {
        let read = Address::read("redis+cluster://:p%40ss@one,[::1]:7001/").unwrap();
        let expected = ["redis://:p%40ss@one:6379", "redis://:p%40ss@[::1]:7001"].map(str::to_owned);
        assert_eq!(read, Address::Cluster(expected.to_vec()));
    }

    #[test]
    fn the_url_of_one_server_is_left_as_it_is() {
        for url in ["", "redis://app@host:1/2", "rediss://host", "redis+unix:///run/socket?db=1", "http+x://"]
        {
            assert_eq!(Address::read(url), Ok(Address::Server(url.to_owned())));
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for url in [
            "redis+sentinel://one",
            "redis+sentinel://one/",
            "redis+sentinel:///main",
            "redis+cluster://",
            "redis+cluster://one,,two",
            "redis+cluster://one/1",
        ] {
            assert!(Address::read(url).is_err(), "{url}");
        }
    }
}
