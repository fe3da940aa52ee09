//! Encrypted connections: a server whose certificate is right is used, another is not.
#![cfg(all(feature = "tls-rustls", any(feature = "mysql", feature = "postgres")))]

mod common;

use std::error::Error as _;

use common::{DAY, completed, id};
use idem_core::store::{StoreError, StoreErrorKind};
use idem_testkit::{Certificates, Database, Server, SqlProduct};

/// A server that shows a certificate, which is for `localhost` alone.
struct Encrypted<P> {
    certificates: Certificates,
    server: Server<P>,
}

impl<P: SqlProduct> Encrypted<P> {
    fn start(settings: impl FnOnce(&str, &str) -> Vec<String>) -> Self {
        let certificates = Certificates::for_a::<P>();
        let [certificate, key] =
            [certificates.server(), certificates.key()].map(|path| path.to_str().expect("a name").to_owned());
        let settings = settings(&certificate, &key);
        let settings: Vec<_> = settings.iter().map(String::as_str).collect();
        Self { server: Server::start(&settings), certificates }
    }

    fn url(&self, user: &str, host: &str, database: &Database) -> String {
        format!("{}://{user}@{host}:{}/{}", P::SCHEME, self.server.port(), database.name())
    }
}

fn assert_refused(error: &StoreError, reason: &str) {
    assert_eq!(error.kind(), StoreErrorKind::Misconfigured, "{error:?}");
    let source = error.source().expect("a reason").to_string();
    assert!(source.contains("no TLS with this server") && source.contains(reason), "{source}");
}

#[cfg(feature = "postgres")]
#[tokio::test]
async fn a_store_is_on_postgresql_by_tls_or_not_at_all() {
    use common::{HOUR, answer, claim, granted};
    use idem_core::store::{Fenced, Store as _};
    use idem_sqlx::PostgresStore;
    use idem_testkit::Postgres;
    use sqlx::Connection as _;
    use sqlx::postgres::PgConnection;

    let encrypted = Encrypted::<Postgres>::start(|certificate, key| {
        vec!["ssl=on".into(), format!("ssl_cert_file={certificate}"), format!("ssl_key_file={key}")]
    });
    let (database, certificates) = (encrypted.server.database().await, &encrypted.certificates);
    let full = |host: &str, authority: &std::path::Path| {
        let url = encrypted.url("idem", host, &database);
        format!("{url}?sslmode=verify-full&sslrootcert={}", authority.display())
    };
    let (right, wrong) = (certificates.authority(), certificates.another_authority());

    let here = PostgresStore::open(&full("localhost", &right)).await.unwrap();
    let elsewhere = PostgresStore::open(&full("localhost", &right)).await.unwrap();
    completed(&here, &id("done"), DAY).await;
    let holder = claim("payload");
    granted(&elsewhere, &id("k"), &holder).await;
    let waiting = tokio::spawn({
        let here = here.clone();
        async move { here.changed(&id("k"), HOUR).await }
    });
    let mut observer =
        PgConnection::connect(&format!("{}?sslmode=disable", encrypted.server.url(database.name())))
            .await
            .unwrap();
    let listening = "SELECT count(*) FROM idem_records WHERE awaited";
    while sqlx::query_scalar::<_, i64>(listening).fetch_one(&mut observer).await.unwrap() == 0 {
        tokio::task::yield_now().await;
    }
    let plain_and_not = "SELECT count(*) FILTER (WHERE NOT ssl), count(*) FILTER (WHERE ssl AND query LIKE 'LISTEN%')
        FROM pg_stat_ssl JOIN pg_stat_activity USING (pid) WHERE datname = current_database() AND pid <> pg_backend_pid()";
    let seen: (i64, i64) = sqlx::query_as(plain_and_not).fetch_one(&mut observer).await.unwrap();
    assert_eq!(seen, (0, 1), "connections that are not encrypted, and ears that are");
    let answered = elsewhere.complete(&id("k"), holder.owner, &answer("done"), DAY).await.unwrap();
    assert_eq!(answered, Fenced::Held);
    waiting.await.unwrap();

    let untrusted = PostgresStore::open(&full("localhost", &wrong)).await.unwrap_err();
    assert_refused(&untrusted, "UnknownIssuer");
    let other_name = PostgresStore::open(&full("127.0.0.1", &right)).await.unwrap_err();
    assert_refused(&other_name, "not valid for name");
}

#[cfg(feature = "mysql")]
#[tokio::test]
async fn a_store_is_on_mariadb_by_tls_or_not_at_all() {
    use idem_sqlx::MySqlStore;
    use idem_testkit::MariaDb;
    use sqlx::Connection as _;
    use sqlx::mysql::{MySqlConnection, MySqlPool};

    let encrypted = Encrypted::<MariaDb>::start(|certificate, key| {
        vec![format!("ssl-cert={certificate}"), format!("ssl-key={key}")]
    });
    let (database, certificates) = (encrypted.server.database().await, &encrypted.certificates);
    // Whoever it lets in speaks TLS.
    let account = "CREATE USER careful REQUIRE SSL; GRANT ALL ON *.* TO careful";
    let mut connection =
        MySqlConnection::connect(&format!("{}?ssl-mode=DISABLED", database.url())).await.unwrap();
    sqlx::raw_sql(account).execute(&mut connection).await.unwrap();
    let full = |host: &str, authority: &std::path::Path| {
        let url = encrypted.url("careful", host, &database);
        format!("{url}?ssl-mode=VERIFY_IDENTITY&ssl-ca={}", authority.display())
    };
    let (right, wrong) = (certificates.authority(), certificates.another_authority());

    let store = MySqlStore::open(&full("localhost", &right)).await.unwrap();
    completed(&store, &id("own"), DAY).await;
    let pool = MySqlPool::connect(&full("localhost", &right)).await.unwrap();
    let (_, cipher): (String, String) =
        sqlx::query_as("SHOW STATUS LIKE 'Ssl_cipher'").fetch_one(&pool).await.unwrap();
    assert!(!cipher.is_empty());
    completed(&MySqlStore::from_pool(&pool).await.unwrap(), &id("pooled"), DAY).await;

    let plain = format!("{}?ssl-mode=DISABLED", encrypted.url("careful", "localhost", &database));
    assert_eq!(MySqlStore::open(&plain).await.unwrap_err().kind(), StoreErrorKind::Misconfigured);
    let untrusted = MySqlStore::open(&full("localhost", &wrong)).await.unwrap_err();
    assert_refused(&untrusted, "UnknownIssuer");
    let other_name = MySqlStore::open(&full("127.0.0.1", &right)).await.unwrap_err();
    assert_refused(&other_name, "not valid for name");
}
