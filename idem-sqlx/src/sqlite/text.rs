//! Texts: the dialect's statements as they are sent, alone and repeated.

use std::collections::HashMap;
use std::sync::{Arc, OnceLock};

use sqlx::Arguments as _;
use sqlx::sqlite::SqliteArguments;

use crate::dialect::Statements;
use crate::step::{Value, Verb};
use crate::table::TableName;

/// How many times a statement is repeated in one text; larger groups are taken apart.
///
/// Each text is prepared once for each connection, and one trip executes it: the trip, not the statement, is what
/// costs.
pub(super) const SIZES: [usize; 4] = [64, 16, 4, 1];

/// A statement whose values stand where they are used: `?N` is taken apart into `?` and the order of the values.
///
/// sqlx counts `?N` over a whole text, so that a repeated statement would be bound to the first one's values.
#[derive(Debug)]
pub(super) struct Text {
    sql: String,
    order: Vec<usize>,
    repeated: [OnceLock<Arc<str>>; SIZES.len()],
}

impl Text {
    fn new(template: &str, table: &TableName) -> Self {
        let mut sql = String::with_capacity(template.len());
        let mut order = Vec::new();
        let template = table.put_into(template);
        let mut rest = template.as_str();
        while let Some((before, after)) = rest.split_once('?') {
            let digits = after.bytes().take_while(u8::is_ascii_digit).count();
            sql.push_str(before);
            sql.push('?');
            order.push(after[..digits].parse::<usize>().map_or(0, |n| n - 1));
            rest = &after[digits..];
        }
        sql.push_str(rest);
        Self { sql, order, repeated: Default::default() }
    }

    /// The statement, once.
    pub(super) fn once(&self) -> Arc<str> {
        self.times(SIZES.len() - 1)
    }

    /// The statement, as often as `SIZES[size]` says.
    pub(super) fn times(&self, size: usize) -> Arc<str> {
        Arc::clone(
            self.repeated[size].get_or_init(|| vec![self.sql.as_str(); SIZES[size]].join(";\n").into()),
        )
    }

    /// Appends the values of one repetition.
    pub(super) fn bind(&self, values: &[Value], arguments: &mut SqliteArguments) -> Result<(), sqlx::Error> {
        for at in &self.order {
            match values.get(*at) {
                Some(Value::Int(int)) => arguments.add(*int),
                Some(Value::Text(text)) => arguments.add(text.as_ref()),
                Some(Value::Word(word)) => arguments.add(*word),
                Some(Value::Bytes(bytes)) => arguments.add(&bytes[..]),
                None => arguments.add(None::<i64>),
            }
            .map_err(sqlx::Error::Encode)?;
        }
        Ok(())
    }
}

/// The statements for one table.
#[derive(Debug)]
pub(super) struct Texts {
    steps: HashMap<Verb, Text>,
    pub(super) look_up: Text,
    /// A claim and, in the same trip, the record that was there.
    pub(super) claim_or_look_up: Text,
    pub(super) find_gone: Text,
    pub(super) version: Text,
}

impl Texts {
    pub(super) fn new(statements: &Statements, table: &TableName) -> Self {
        let text = |template: &str| Text::new(template, table);
        // The values of a claim are eight; whether the answer is wanted is the ninth.
        let look_up_after = statements.look_up.replace("?2", "?9");
        Self {
            steps: Verb::ALL.map(|verb| (verb, text(verb.statement(statements)))).into(),
            look_up: text(statements.look_up),
            claim_or_look_up: text(&format!("{};\n{look_up_after}", statements.claim)),
            find_gone: text(statements.find_gone),
            version: text(statements.version),
        }
    }

    pub(super) fn step(&self, verb: Verb) -> &Text {
        &self.steps[&verb]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_stand_where_they_are_used() {
        let text = Text::new(
            "UPDATE \"idem_records\" SET a = ?2 WHERE b = ?1 AND c = ?12",
            &TableName::new("t").unwrap(),
        );
        assert_eq!(&*text.once(), "UPDATE \"t\" SET a = ? WHERE b = ? AND c = ?");
        assert_eq!(text.order, [1, 0, 11]);
        assert_eq!(text.times(2).matches("UPDATE").count(), 4);
    }
}
