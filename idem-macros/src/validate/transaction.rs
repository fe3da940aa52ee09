//! Whether a transaction can be had, and can be told from everything else in the body.

use proc_macro2::Ident;
use syn::parse::Parser;
use syn::visit::{self, Visit};
use syn::{Block, Item, Local, PatIdent};

use crate::args::Options;
use crate::errors::Errors;
use crate::signature::Function;

pub(super) fn check(options: &Options, function: &Function, errors: &mut Errors) {
    let Some(span) = options.given("transaction") else { return };
    if options.given("engine").is_none() {
        errors.at(
            span,
            "`transaction` needs `engine = ..`, a `Transactional` one: the engine of the process does not know what \
             transactions its store has",
        );
    }
    if let Some(policy) = options.policy("on_crash").filter(|policy| policy.is("on_crash", "Reject")) {
        errors.at(
            policy.span,
            "with `transaction` a crash undoes what was done, so there is no outcome that nobody knows; leave \
             `on_crash` out",
        );
    }
    if let Some(policy) = options.policy("on_store_error").filter(|policy| policy.is("on_store_error", "Run"))
    {
        errors.at(
            policy.span,
            "without its store there is no transaction to run in; leave `on_store_error` or `transaction` out",
        );
    }
    let Some(name) = &options.transaction else { return };
    for taken in function.bindings().filter(|binding| *binding == name) {
        errors.at(
            taken.span(),
            format!(
                "the transaction is called `{name}`, and so is this argument; give one of them another name"
            ),
        );
    }
    for hidden in hidden_in(function, name) {
        errors.at(
            hidden.span(),
            format!(
                "this hides the transaction, which is called `{name}`: what goes through it would not be committed \
                 with the answer; give one of them another name"
            ),
        );
    }
}

/// Variables of the body that hide the transaction without being made of it.
fn hidden_in(function: &Function, name: &Ident) -> Vec<Ident> {
    let mut search = Search { name, found: Vec::new() };
    if let Some(boxed) = &function.boxed {
        boxed.inside.iter().for_each(|stmt| search.visit_stmt(stmt));
    } else {
        // What does not parse the compiler complains of.
        let stmts = Block::parse_within.parse2(function.body.clone());
        stmts.iter().flatten().for_each(|stmt| search.visit_stmt(stmt));
    }
    search.found
}

struct Search<'a> {
    name: &'a Ident,
    found: Vec<Ident>,
}

impl<'ast> Visit<'ast> for Search<'_> {
    fn visit_local(&mut self, local: &'ast Local) {
        let mut mentions = Mentions { name: self.name, found: false };
        if let Some(init) = &local.init {
            mentions.visit_local_init(init);
        }
        if !mentions.found {
            let mut bound = Bound { name: self.name, found: &mut self.found };
            bound.visit_pat(&local.pat);
        }
        visit::visit_local(self, local);
    }

    // Functions inside have names of their own.
    fn visit_item(&mut self, _: &'ast Item) {}
}

/// Finds where a pattern binds a name.
struct Bound<'a> {
    name: &'a Ident,
    found: &'a mut Vec<Ident>,
}

impl<'ast> Visit<'ast> for Bound<'_> {
    fn visit_pat_ident(&mut self, pat: &'ast PatIdent) {
        if pat.ident == *self.name {
            self.found.push(pat.ident.clone());
        }
        visit::visit_pat_ident(self, pat);
    }
}

/// Finds out whether an expression says a name.
struct Mentions<'a> {
    name: &'a Ident,
    found: bool,
}

impl<'ast> Visit<'ast> for Mentions<'_> {
    fn visit_ident(&mut self, ident: &'ast Ident) {
        self.found |= ident == self.name;
    }

    fn visit_macro(&mut self, mac: &'ast syn::Macro) {
        self.found |= crate::args::says(&mac.tokens, self.name);
    }
}
