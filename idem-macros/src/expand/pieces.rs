//! What both flavours generate.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{quote, quote_spanned};
use syn::spanned::Spanned;
use syn::visit_mut::{self, VisitMut};
use syn::{Expr, FnArg, Pat, PatIdent, Path, Type, parse_quote_spanned};

use crate::args::{Options, Scope};
use crate::flavour::Flavour;
use crate::signature::{Argument, Function};

/// Ready-made parts of the expansion.
pub(crate) struct Pieces {
    pub(crate) krate: Path,
    /// `static __IDEM_SITE: Site = ..;`
    pub(crate) site: TokenStream,
    /// Calls on `Call` or `HttpCall` that both have: scope, times, policies.
    pub(crate) settings: TokenStream,
    /// Whether the work is moved to a task if its caller goes away.
    pub(crate) detached: bool,
    /// What the body calls its transaction.
    pub(crate) transaction: Option<Ident>,
}

impl Pieces {
    pub(crate) fn new(options: &Options, function: &Function, flavour: Flavour) -> Self {
        let here = Span::mixed_site();
        let krate = options.krate.clone().unwrap_or_else(|| parse_quote_spanned!(here=> ::idem));
        Self {
            site: site(&krate, options, function),
            settings: settings(&krate, options),
            detached: options.given("inline").is_none()
                && (options.given("detached").is_some() || function.borrow(flavour).is_none()),
            transaction: options.transaction.clone(),
            krate,
        }
    }

    /// What a method that runs the work is called, without what is said of its detachment.
    pub(crate) fn run(&self) -> &'static str {
        if self.transaction.is_some() { "transact" } else { "run" }
    }

    /// Makes a body what is run: a future, or with a transaction a closure that makes one of it.
    pub(crate) fn work(&self, body: &TokenStream) -> TokenStream {
        let here = Span::mixed_site();
        let Some(transaction) = &self.transaction else {
            return quote_spanned!(here=> async move { #body });
        };
        quote_spanned! {here=>
            move |mut __idem_tx| async move {
                let #transaction = &mut *__idem_tx;
                #body
            }
        }
    }
}

fn site(krate: &Path, options: &Options, function: &Function) -> TokenStream {
    let here = Span::mixed_site();
    let (pinned, operation) = if let Some(operation) = &options.operation {
        ("pinned", quote!(#operation))
    } else {
        let name = format!("::{}", function.name());
        ("unpinned", quote_spanned!(here=> ::core::concat!(::core::module_path!(), #name)))
    };
    let pinned = Ident::new(pinned, here);
    quote_spanned! {here=>
        static __IDEM_SITE: #krate::__private::Site = #krate::__private::Site::#pinned(
            #operation, ::core::file!(), ::core::line!(), ::core::column!(),
        );
    }
}

/// Binds `__idem_begun`, the call as its engine begins it; without an engine of the process the function returns
/// `refusal`, made of `__idem_error`.
pub(crate) fn begin(krate: &Path, options: &Options, refusal: &TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    if let Some(engine) = &options.engine {
        let (there, engine) = (here.located_at(engine.span()), by_reference(engine));
        if options.transaction.is_some() {
            // Only an engine that knows its store's transactions has a call that knows them, too.
            let begun =
                quote_spanned!(there=> #krate::__private::transactional((#engine).call_at(&__IDEM_SITE)));
            return quote_spanned!(here=> let __idem_begun = #begun;);
        }
        return quote_spanned! {here=>
            let __idem_engine: &#krate::Idempotency = #engine;
            let __idem_begun = __idem_engine.call_at(&__IDEM_SITE);
        };
    }
    quote_spanned! {here=>
        let __idem_engine = match #krate::__private::global() {
            ::core::result::Result::Ok(__idem_engine) => __idem_engine,
            ::core::result::Result::Err(__idem_error) => return #refusal,
        };
        let __idem_begun = __idem_engine.call_at(&__IDEM_SITE);
    }
}

fn settings(krate: &Path, options: &Options) -> TokenStream {
    let here = Span::mixed_site();
    let mut settings = TokenStream::new();
    settings.extend(match &options.scope {
        Some(Scope::Expr(scope)) => {
            let scope = by_reference(scope);
            quote_spanned!(here=> .scope(#scope))
        }
        Some(Scope::Shared) | None => quote_spanned!(here=> .shared()),
    });
    for (name, time) in &options.times {
        let (name, time) = (Ident::new(name, here), time.expression());
        settings.extend(quote_spanned!(here=> .#name(#time)));
    }
    for policy in options.policies.iter().filter(|policy| !policy.is_of_http()) {
        let (name, value) = (Ident::new(policy.option(), here), policy.expression(krate));
        settings.extend(quote_spanned!(here=> .#name(#value)));
    }
    if options.given("rebind").is_some() {
        settings.extend(quote_spanned!(here=> .rebind(true)));
    }
    settings
}

/// A reference to an expression, blamed at the expression; of a tuple, references to its parts, so that none is moved.
pub(crate) fn by_reference(expr: &Expr) -> TokenStream {
    let here = Span::mixed_site().located_at(expr.span());
    match expr {
        Expr::Paren(paren) => by_reference(&paren.expr),
        Expr::Tuple(tuple) => {
            let parts = tuple.elems.iter().map(by_reference);
            quote_spanned!(here=> &(#(#parts,)*))
        }
        Expr::Path(_) | Expr::Field(_) | Expr::MethodCall(_) | Expr::Call(_) | Expr::Lit(_) => {
            quote_spanned!(here=> &#expr)
        }
        _ => quote_spanned!(here=> &(#expr)),
    }
}

/// Binds what the argument's pattern binds, before options look at it.
pub(crate) fn take_apart(argument: &Argument, value: &TokenStream) -> TokenStream {
    let here = Span::mixed_site();
    let (cfg, pat) = (&argument.cfg, argument.pattern_without_mut());
    if argument.bindings.is_empty() {
        return TokenStream::new();
    }
    quote_spanned!(here=> #(#cfg)* let #pat = #value;)
}

/// Moves the arguments into the body whole, also those that it does not look at: a guard among them lives as long as
/// the body does.
///
/// What only the options use is not called unused.
pub(crate) fn take_over(options: &Options, arguments: &[Argument]) -> TokenStream {
    let here = Span::mixed_site();
    let mut taken = TokenStream::new();
    for argument in arguments.iter().filter(|argument| !argument.taken) {
        let cfg = &argument.cfg;
        if argument.bindings.is_empty() {
            let (pat, param) = (&argument.pat, &argument.param);
            taken.extend(quote_spanned!(here=> #(#cfg)* let #param = #param; #(#cfg)* let #pat = #param;));
        }
        for binding in &argument.bindings {
            let (ident, mutability) = (&binding.ident, binding.mutability.filter(|_| !binding.by_ref));
            // `None` or a unit struct is a pattern that looks like a binding.
            if !ident.to_string().starts_with(char::is_uppercase) {
                let mut allow = TokenStream::new();
                if options.mentions(ident) {
                    allow.extend(quote_spanned!(here=> #[allow(unused_variables)]));
                }
                if ident.to_string().starts_with('_') {
                    allow.extend(quote_spanned!(here=> #[allow(clippy::used_underscore_binding, clippy::no_effect_underscore_binding)]));
                }
                taken.extend(quote_spanned!(here=> #(#cfg)* #allow let #mutability #ident = #ident;));
            }
        }
    }
    taken
}

/// A statement that tells the compiler what the body ends with, so that its errors are those of a plain function.
pub(crate) fn pin_type(ty: &Type) -> TokenStream {
    let ty = without_impl_trait(ty);
    if matches!(ty, Type::Infer(_)) {
        return TokenStream::new();
    }
    let here = Span::mixed_site().located_at(ty.span());
    quote_spanned! {here=>
        #[allow(unreachable_code, clippy::all, clippy::pedantic, clippy::restriction)]
        if false {
            let __idem_never: #ty = loop {};
            return __idem_never;
        }
    }
}

/// The type with `_` where it says `impl Trait`, which only a signature may say.
pub(crate) fn without_impl_trait(ty: &Type) -> Type {
    struct Infer;
    impl VisitMut for Infer {
        fn visit_type_mut(&mut self, ty: &mut Type) {
            if let Type::ImplTrait(_) = ty {
                *ty = parse_quote_spanned!(ty.span()=> _);
            } else {
                visit_mut::visit_type_mut(self, ty);
            }
        }
    }
    let mut ty = ty.clone();
    // Types that came through `macro_rules!` are wrapped in an invisible group.
    while let Type::Group(group) = ty {
        ty = *group.elem;
    }
    Infer.visit_type_mut(&mut ty);
    ty
}

/// Puts the identifier of an argument into the signature; what was a pattern there is bound inside.
pub(crate) fn rename(argument: &Argument, sig: &mut syn::Signature) {
    if let Some(FnArg::Typed(typed)) = sig.inputs.get_mut(argument.position) {
        let ident = argument.param.clone();
        *typed.pat =
            Pat::Ident(PatIdent { attrs: Vec::new(), by_ref: None, mutability: None, ident, subpat: None });
    }
}
