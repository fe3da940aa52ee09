use quote::quote;
use syn::parse_quote;

use super::*;

fn borrows(function: &Function) -> Option<bool> {
    function.borrow(Flavour::Plain).map(|borrow| borrow.certain)
}

#[test]
fn owned_arguments_borrow_nothing() {
    for function in [
        parse_quote!(
            async fn f(a: A, (b, c): (B, Vec<C>)) -> R {}
        ),
        parse_quote!(
            async fn f(self: Arc<Self>, a: &'static str) -> R {}
        ),
        parse_quote!(
            async fn f(call: fn(&A) -> &B, dynamic: Box<dyn for<'a> Fn(&'a A) + Send>) -> R {}
        ),
        parse_quote!(
            async fn f<T: Send + 'static>(t: T, u: impl Send + 'static) -> R {}
        ),
        parse_quote!(
            async fn f<T>(t: Vec<T>) -> R
            where
                T: 'static + Send,
            {
            }
        ),
        parse_quote!(
            async fn f() -> &'static str {}
        ),
    ] {
        let function: Function = function;
        assert_eq!(borrows(&function), None, "{}", function.to_token_stream());
    }
}

#[test]
fn references_and_lifetimes_borrow() {
    for function in [
        parse_quote!(
            async fn f(&self) -> R {}
        ),
        parse_quote!(
            async fn f(&mut self) -> R {}
        ),
        parse_quote!(
            async fn f(self: &Arc<Self>) -> R {}
        ),
        parse_quote!(
            async fn f(a: &A) -> R {}
        ),
        parse_quote!(
            async fn f(a: Option<&mut A>) -> R {}
        ),
        parse_quote!(
            async fn f<'a>(a: Cow<'a, str>) -> R {}
        ),
        parse_quote!(
            async fn f(a: Guard<'_>) -> R {}
        ),
        parse_quote!(
            async fn f(ref a: A) -> R {}
        ),
        parse_quote!(
            async fn f(a: Box<dyn Any + '_>) -> R {}
        ),
    ] {
        let function: Function = function;
        assert_eq!(borrows(&function), Some(true), "{}", function.to_token_stream());
    }
}

#[test]
fn type_parameters_may_borrow_unless_they_are_static() {
    for function in [
        parse_quote!(
            async fn f(a: impl Into<String>) -> R {}
        ),
        parse_quote!(
            async fn f<T: Serialize>(t: T) -> R {}
        ),
        parse_quote!(
            async fn f<T>(t: Option<T>) -> R
            where
                T: Send,
            {
            }
        ),
    ] {
        let function: Function = function;
        assert_eq!(borrows(&function), Some(false), "{}", function.to_token_stream());
        assert!(function.borrow(Flavour::Axum).is_none(), "a handler owns its arguments");
    }
}

#[test]
fn the_first_certain_borrow_is_told_else_the_first_that_may_be_one() {
    for (function, borrowed) in [
        (
            parse_quote!(
                async fn f(a: &A, b: &B) -> R {}
            ),
            quote!(&A),
        ),
        (
            parse_quote!(
                async fn f(a: impl A, b: &B, c: impl C) -> R {}
            ),
            quote!(&B),
        ),
        (
            parse_quote!(
                async fn f(a: impl A, b: impl B) -> R {}
            ),
            quote!(impl A),
        ),
    ] {
        let function: Function = function;
        let borrow = function.borrow(Flavour::Plain).expect("it borrows");
        assert_eq!(borrow.tokens.to_string(), borrowed.to_string());
    }
}

#[test]
fn types_that_came_through_a_macro_are_looked_into() {
    let ty = proc_macro2::Group::new(proc_macro2::Delimiter::None, quote!(&A));
    let function: Function = parse_quote!(async fn f(a: #ty) -> R {});
    assert_eq!(borrows(&function), Some(true));
}

#[test]
fn what_is_ambiguous_must_be_named() {
    for function in [
        parse_quote!(
            async fn f(&self) -> R {}
        ),
        parse_quote!(
            async fn f(this: Arc<Self>) -> R {}
        ),
        parse_quote!(
            async fn f() -> Self {}
        ),
        parse_quote!(
            async fn f() -> R {
                Self::g().await
            }
        ),
        parse_quote!(
            async fn f() -> R {
                g(Self::new()).await
            }
        ),
        parse_quote!(
            async fn f() -> R {
                struct S {
                    next: Option<Box<Self>>,
                }
                g(Self::new()).await
            }
        ),
        parse_quote!(
            async fn f() -> R {
                struct S;
                g(Self::new()).await
            }
        ),
        parse_quote!(
            async fn f<T>() -> R {}
        ),
        parse_quote!(
            async fn f<const N: usize>() -> R {}
        ),
        parse_quote!(
            async fn f(a: impl Into<A>) -> R {}
        ),
    ] {
        let function: Function = function;
        assert!(function.ambiguity().is_some(), "{}", function.to_token_stream());
    }
    for function in [
        parse_quote!(
            async fn f<'a>(a: &'a A) -> R {}
        ),
        parse_quote!(
            async fn f() -> impl Into<A> {}
        ),
        parse_quote!(
            async fn f() -> R {
                struct S;
                impl S {
                    fn new() -> Self {
                        Self
                    }
                }
                R
            }
        ),
        parse_quote!(
            async fn f() -> R {
                struct S {
                    next: Option<Box<Self>>,
                }
                trait T {
                    fn new() -> Self;
                }
                impl<const N: usize> T for [S; N] {
                    fn new() -> Self {
                        Self::default()
                    }
                }
                g(R)
            }
        ),
    ] {
        let function: Function = function;
        assert!(function.ambiguity().is_none(), "{}", function.to_token_stream());
    }
}

#[test]
fn an_argument_is_named_after_its_first_binding() {
    let function: Function = parse_quote!(
        async fn f(a: A, mut b: B, State(App { c, d }): S, _: E, Json(ref r#type): J) -> R {}
    );
    let names: Vec<_> =
        function.arguments.iter().map(|argument| argument.name().map(ToString::to_string)).collect();
    assert_eq!(
        names,
        [Some("a"), Some("b"), Some("c"), None, Some("r#type")].map(|name| name.map(str::to_owned))
    );
    let params: Vec<_> = function.arguments.iter().map(|argument| argument.param.to_string()).collect();
    assert_eq!(params, ["a", "b", "c", "__idem_arg_3", "type"]);
}

#[test]
fn a_boxed_method_is_opened() {
    let function: Function = parse_quote! {
        fn f<'life0, 'async_trait>(&'life0 self, a: A, __arg2: (B, C))
            -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Result<T, E>> + ::core::marker::Send + 'async_trait>>
        where 'life0: 'async_trait
        {
            Box::pin(async move {
                let __self = self;
                let a = a;
                let (b, c) = { let __arg2 = __arg2; __arg2 };
                let __ret: Result<T, E> = { work(b, c) };
                __ret
            })
        }
    };
    let boxed = function.boxed.as_ref().expect("boxed");
    assert_eq!(boxed.output.to_token_stream().to_string(), quote!(Result<T, E>).to_string());
    assert_eq!(boxed.inside.len(), 4, "the pattern was taken out");
    assert_eq!(function.arguments[1].name().expect("named"), "b");
    assert_eq!(function.arguments[1].param, "__arg2");
    assert!(function.arguments[0].taken && !function.arguments[1].taken);
    assert_eq!(borrows(&function), Some(true));
}

#[test]
fn a_function_that_only_returns_a_future_is_not_opened() {
    let function: Function = parse_quote!(
        fn f() -> Pin<Box<dyn Future<Output = R>>> {
            other()
        }
    );
    assert!(function.boxed.is_none());
    let function: Function = parse_quote!(
        fn f() -> u8 {
            Box::pin(async move {})
        }
    );
    assert!(function.boxed.is_none());
    for call in [
        quote!(Box::new(async move {})),
        quote!(Rc::pin(async move {})),
        quote!(pin(async move {})),
        quote!(Box::pin(async move {}, 1)),
        quote!(Box::pin(work())),
    ] {
        let function: Function = parse_quote!(fn f() -> Pin<Box<dyn Future<Output = R>>> { #call });
        assert!(function.boxed.is_none(), "{call}");
    }
    let function: Function = parse_quote!(
        fn f() -> Pin<Box<dyn Future<Input = A, Output = R>>> {
            Box::pin(async move {})
        }
    );
    assert_eq!(function.boxed.expect("boxed").output.to_token_stream().to_string(), "R");
}

#[test]
fn a_body_that_does_not_parse_is_kept() {
    let function: Function = parse_quote!(async fn f() -> R { let x = ; unfinished. });
    assert_eq!(
        function.to_token_stream().to_string(),
        quote!(async fn f() -> R { let x = ; unfinished. }).to_string()
    );
}

#[test]
fn attributes_docs_and_bounds_are_kept() {
    let tokens = quote! {
        /// Docs.
        #[inline]
        pub(crate) async unsafe fn f<'a, T: Clone>(#[cfg(test)] a: A) -> R where T: 'a { #![allow(dead_code)] body() }
    };
    let function: Function = syn::parse2(tokens.clone()).expect("a function");
    assert_eq!(function.to_token_stream().to_string(), tokens.to_string());
    assert_eq!(function.arguments[0].cfg.len(), 1);
}

#[test]
fn what_is_no_function_is_told_where_to_go() {
    let message = |tokens: TokenStream| {
        let error = syn::parse2::<Function>(tokens.clone()).err().expect("no function");
        no_function(&tokens, error).to_string()
    };
    assert_eq!(
        message(quote!(
            pub struct S;
        )),
        "only an `async fn` can be made idempotent"
    );
    assert_eq!(
        message(quote!(impl S { async fn f() {} })),
        "annotate the async functions inside, one by one"
    );
    assert_eq!(
        message(quote!(
            trait T {
                async fn f();
            }
        )),
        "annotate the async functions inside, one by one"
    );
    assert!(
        message(quote!(
            async fn f() -> impl;
        ))
        .contains("expected")
    );
    assert!(
        message(quote!(
            async fn f(&self) -> R;
        ))
        .contains("annotate the implementation")
    );
}

#[test]
fn a_pattern_binds_each_name_once_and_is_taken_apart_without_changing_anything() {
    let function: Function = parse_quote!(
        async fn f((mut a, ref mut b): (A, B), (A(x) | B(x)): C) -> R {}
    );
    let names: Vec<_> = function.bindings().map(ToString::to_string).collect();
    assert_eq!(names, ["a", "b", "x"]);
    let pattern = function.arguments[0].pattern_without_mut();
    assert_eq!(pattern.to_token_stream().to_string(), quote!((a, ref mut b)).to_string());
}
