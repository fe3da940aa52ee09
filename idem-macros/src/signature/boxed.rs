//! Methods whose body `#[async_trait]` has boxed.
//!
//! That attribute stands on the `impl` and expands first, so that the method arrives as a plain `fn` which ends with
//! `Box::pin(async move { .. })`. The arguments are taken apart by `let` statements inside.

use proc_macro2::{Ident, TokenStream};
use quote::ToTokens;
use syn::parse::Parser;
use syn::{
    Block, Expr, ExprAsync, ExprCall, ExprPath, GenericArgument, Local, LocalInit, Pat, PatIdent,
    PathArguments, ReturnType, Signature, Stmt, Type, TypeParamBound, TypePath,
};

/// The inside of a boxed body.
pub(crate) struct Boxed {
    /// What stands before `Box::pin`.
    pub(crate) before: Vec<Stmt>,
    /// The path of `Box::pin`.
    pub(crate) pin: Box<Expr>,
    /// The statements of the async block.
    pub(crate) inside: Vec<Stmt>,
    /// The type that the future ends with.
    pub(crate) output: Type,
}

impl Boxed {
    /// Recognises a boxed body.
    pub(crate) fn find(sig: &Signature, body: &TokenStream) -> Option<Self> {
        let output = future_output(&sig.output)?;
        let mut before = Block::parse_within.parse2(body.clone()).ok()?;
        let Some(Stmt::Expr(Expr::Call(ExprCall { func, mut args, .. }), None)) = before.pop() else {
            return None;
        };
        let Expr::Path(ExprPath { path, .. }) = &*func else {
            return None;
        };
        let mut last_two = path.segments.iter().rev().map(|segment| segment.ident.to_string());
        if last_two.next()? != "pin" || last_two.next()? != "Box" || args.len() != 1 {
            return None;
        }
        let Some(Expr::Async(ExprAsync { block, .. })) = args.pop() else {
            return None;
        };
        Some(Self { before, pin: func, inside: block.stmts, output })
    }

    /// Takes the statement `let PATTERN = { let param = param; param };` out and returns its pattern.
    pub(crate) fn take_pattern(&mut self, param: &Ident) -> Option<Pat> {
        let at = self.inside.iter().position(|stmt| takes_apart(stmt, param))?;
        match self.inside.remove(at) {
            Stmt::Local(local) => Some(local.pat),
            _ => None,
        }
    }
}

fn takes_apart(stmt: &Stmt, param: &Ident) -> bool {
    let Stmt::Local(Local { init: Some(LocalInit { expr, .. }), pat, .. }) = stmt else {
        return false;
    };
    let Expr::Block(block) = &**expr else {
        return false;
    };
    let is_param = |expr: &Expr| matches!(expr, Expr::Path(path) if path.path.is_ident(param));
    !matches!(pat, Pat::Ident(PatIdent { ident, .. }) if ident == param)
        && block.block.stmts.len() == 2
        && matches!(block.block.stmts.last(), Some(Stmt::Expr(last, None)) if is_param(last))
}

/// `T` of `Pin<Box<dyn Future<Output = T> + ..>>`.
fn future_output(output: &ReturnType) -> Option<Type> {
    let ReturnType::Type(_, ty) = output else {
        return None;
    };
    let boxed = argument_of(ty, "Pin")?;
    let Type::TraitObject(object) = argument_of(boxed, "Box")? else {
        return None;
    };
    let future = object.bounds.iter().find_map(|bound| match bound {
        TypeParamBound::Trait(bound) => bound.path.segments.last().filter(|last| last.ident == "Future"),
        _ => None,
    })?;
    let PathArguments::AngleBracketed(arguments) = &future.arguments else {
        return None;
    };
    arguments.args.iter().find_map(|argument| match argument {
        GenericArgument::AssocType(assoc) if assoc.ident == "Output" => Some(assoc.ty.clone()),
        _ => None,
    })
}

fn argument_of<'a>(ty: &'a Type, name: &str) -> Option<&'a Type> {
    let Type::Path(TypePath { qself: None, path, .. }) = ty else {
        return None;
    };
    let last = path.segments.last().filter(|last| last.ident == name)?;
    match &last.arguments {
        PathArguments::AngleBracketed(arguments) => {
            arguments.args.iter().find_map(|argument| match argument {
                GenericArgument::Type(ty) => Some(ty),
                _ => None,
            })
        }
        _ => None,
    }
}

impl Boxed {
    /// The statements inside as tokens.
    pub(crate) fn inside_tokens(&self) -> TokenStream {
        self.inside.iter().map(ToTokens::to_token_stream).collect()
    }
}
