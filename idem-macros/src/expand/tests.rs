use proc_macro2::TokenStream;
use quote::quote;

use super::*;
use crate::errors::Errors;

/// The expansion without blanks, since those are the printer's.
fn expansion(flavour: Flavour, options: TokenStream, function: TokenStream) -> String {
    let mut errors = Errors::default();
    let options = Options::parse(options, flavour, &mut errors);
    assert!(errors.is_empty());
    let function = syn::parse2(function).expect("a function");
    expand(&options, function, flavour).to_string().replace([' ', '\n'], "")
}

fn plain(options: TokenStream, function: TokenStream) -> String {
    expansion(Flavour::Plain, options, function)
}

fn http(options: TokenStream, function: TokenStream) -> String {
    expansion(Flavour::Axum, options, function)
}

#[test]
fn an_expansion_is_a_function_again() {
    let function = || {
        quote!(
            pub async fn f<T: Send + 'static>(a: A, State(b): S<T>) -> Result<B, E>
            where
                T: Clone,
            {
                body()
            }
        )
    };
    for flavour in [Flavour::Plain, Flavour::Axum, Flavour::Actix] {
        let mut errors = Errors::default();
        let options = Options::parse(
            quote!(key = a.id, ttl = "1h", operation = "f", engine = b.e),
            flavour,
            &mut errors,
        );
        let function = syn::parse2(function()).expect("a function");
        let expanded: syn::ItemFn = syn::parse2(expand(&options, function, flavour)).expect("a function");
        assert!(expanded.sig.asyncness.is_some());
        assert_eq!(expanded.sig.generics.params.len(), 1);
        assert!(expanded.sig.generics.where_clause.is_some());
    }
}

#[test]
fn the_plain_signature_stays() {
    let expanded = plain(
        quote!(key = msg.id, ttl = "1h"),
        quote!(
            async fn f(mut msg: Msg, (a, b): (A, B), _: C) -> Result<T, E> {
                body()
            }
        ),
    );
    assert!(expanded.starts_with("asyncfnf(msg:Msg,a:(A,B),__idem_arg_2:C)->Result<T,E>{"), "{expanded}");
    assert!(expanded.contains("let(a,b)=a;"), "{expanded}");
    assert!(expanded.contains("letmutmsg=msg;"), "{expanded}");
}

#[test]
fn whole_arguments_are_fingerprinted_before_they_are_taken_apart() {
    let expanded = plain(
        quote!(key = a, ttl = "1h", skip(pool)),
        quote!(
            async fn f((a, b): (A, B), pool: P, _: C) -> Result<T, E> {
                body()
            }
        ),
    );
    let fingerprint =
        expanded.find(".add(\"a\",::idem::__private::countable::<(A,B)>(&a))").expect("fingerprinted");
    assert!(fingerprint < expanded.find("let(a,b)=a;").expect("taken apart"));
    assert!(expanded.contains(".add(\"__idem_arg_2\","), "{expanded}");
    assert!(!expanded.contains(".add(\"pool\""), "{expanded}");
}

#[test]
fn conditional_arguments_stay_conditional() {
    let expanded = plain(
        quote!(key = a, ttl = "1h"),
        quote!(
            async fn f(a: A, #[cfg(x)] b: B) -> Result<T, E> {}
        ),
    );
    assert!(expanded.contains("#[cfg(x)]__idem_arguments.add(\"b\""), "{expanded}");
    assert!(expanded.contains("#[cfg(x)]letb=b;"), "{expanded}");
}

#[test]
fn borrowing_functions_run_inline() {
    let (detached, inline) = (".run_detached(__idem_call,asyncmove{", ".run_inline(__idem_call,asyncmove{");
    let options = || quote!(key = k, ttl = "1h");
    assert!(
        plain(
            options(),
            quote!(
                async fn f(a: A) -> R {}
            )
        )
        .contains(detached)
    );
    assert!(
        plain(
            options(),
            quote!(
                async fn f(a: &A) -> R {}
            )
        )
        .contains(inline)
    );
    assert!(
        plain(
            quote!(key = k, ttl = "1h", inline),
            quote!(
                async fn f(a: A) -> R {}
            )
        )
        .contains(inline)
    );
    let overridden = quote!(key = k, ttl = "1h", detached, operation = "o");
    assert!(
        plain(
            overridden,
            quote!(
                async fn f(a: impl Into<A>) -> R {}
            )
        )
        .contains(detached)
    );
}

#[test]
fn what_is_kept_is_asked_of_the_declared_output() {
    let function = || {
        quote!(
            async fn f(a: A) -> Result<impl Serialize, E> {}
        )
    };
    let expanded = plain(quote!(key = k, ttl = "1h"), function());
    assert!(expanded.contains("=::idem::__private::output::<Result<_,E>>();"), "{expanded}");
    let expanded = plain(quote!(key = k, ttl = "1h", store_err), function());
    assert!(expanded.contains("=::idem::__private::output_whole::<Result<_,E>>();"), "{expanded}");
}

#[test]
fn options_become_calls() {
    let expanded = plain(
        quote! {
            key = (a.id, a.part), ttl = "24h", scope = shared, operation = "o", engine = a.idem, fingerprint = none,
            lease = LEASE, in_flight = wait("5s"), on_crash = reject, rebind, crate = ::renamed
        },
        quote!(
            async fn f(a: A) -> R {}
        ),
    );
    for part in [
        "::renamed::__private::Site::pinned(\"o\",",
        "let__idem_engine:&::renamed::Idempotency=&a.idem;",
        ".key(&(&a.id,&a.part,)).shared()",
        ".ttl(::core::time::Duration::from_millis(86400000u64)).lease(LEASE)",
        ".in_flight(::renamed::__private::InFlight::Wait(::core::time::Duration::from_millis(5000u64)))",
        ".on_crash(::renamed::__private::OnCrash::Reject).rebind(true).unfingerprinted()",
    ] {
        assert!(expanded.contains(part), "{part} not in {expanded}");
    }
    assert!(!expanded.contains("::idem::"), "{expanded}");
}

#[test]
fn an_operation_that_is_not_pinned_is_the_path_of_the_function() {
    let expanded = plain(
        quote!(key = k, ttl = "1h"),
        quote!(
            async fn r#type() -> R {}
        ),
    );
    assert!(
        expanded.contains("Site::unpinned(::core::concat!(::core::module_path!(),\"::type\")"),
        "{expanded}"
    );
    assert!(expanded.contains("::idem::__private::global()"), "{expanded}");
}

#[test]
fn a_handler_captures_its_request_in_the_last_argument() {
    let expanded = http(
        quote!(key = header, ttl = "1h", scope = user.id, engine = app.idem),
        quote!(
            async fn f(State(app): State<App>, user: User, Json(req): Json<Req>) -> Result<Json<R>, E> {
                body()
            }
        ),
    );
    let signature = "asyncfnf(app:State<App>,user:User,req:::idem::__private::axum::CapturedBriefly<Json<Req>>)->::idem::__private::axum::Response{";
    assert!(expanded.starts_with(signature), "{expanded}");
    for part in [
        "let(__idem_last,__idem_request)=req.into_parts();letState(app)=app;letJson(req)=__idem_last;",
        "let__idem_engine:&::idem::Idempotency=&app.idem;let__idem_begun=__idem_engine.call_at(&__IDEM_SITE);",
        "::idem::__private::axum::call(__idem_begun,__idem_request)",
        ".key_header(::core::option::Option::None).scope(&user.id)",
        "::idem::__private::axum::into_response(__idem_answer)",
    ] {
        assert!(expanded.contains(part), "{part} not in {expanded}");
    }
    assert!(!expanded.contains("SCOPE_LEFT_OUT") && !expanded.contains("fingerprint"), "{expanded}");
}

#[test]
fn the_last_argument_of_a_handler_is_bound_as_it_was_written() {
    for (function, signature, apart) in [
        (
            quote!(
                async fn f(mut req: Req) {}
            ),
            "__idem_captured:",
            "let(__idem_last,__idem_request)=__idem_captured.into_parts();letreq=__idem_last;",
        ),
        (
            quote!(
                async fn f(_: Req) {}
            ),
            "__idem_arg_0:",
            "let(__idem_last,__idem_request)=__idem_arg_0.into_parts();let__idem_arg_0=__idem_last;",
        ),
    ] {
        let expanded = http(quote!(key = header, ttl = "1h"), function);
        assert!(expanded.starts_with(&format!("asyncfnf({signature}")), "{expanded}");
        assert!(expanded.contains(apart), "{expanded}");
    }
}

#[test]
fn a_handler_without_arguments_gets_one() {
    for function in [
        quote!(
            async fn f() -> &'static str {
                "x"
            }
        ),
        quote!(
            async fn f(self) -> &'static str {
                "x"
            }
        ),
    ] {
        let expanded = http(quote!(key = header("X-Key"), ttl = "1h", fingerprint = raw), function);
        assert!(
            expanded.contains(
                "__idem_captured:::idem::__private::axum::Captured<::idem::__private::axum::Nothing>)"
            ),
            "{expanded}"
        );
        assert!(expanded.contains("let(_,__idem_request)=__idem_captured.into_parts();"), "{expanded}");
        assert!(expanded.contains(".key_header(::core::option::Option::Some(\"X-Key\"))"), "{expanded}");
        assert!(expanded.contains(".fingerprint_raw()"), "{expanded}");
    }
}

#[test]
fn what_a_handler_says_of_http_is_said_at_once() {
    let expanded = http(
        quote!(
            key = header,
            ttl = "1h",
            syntax = strict,
            format = uuid,
            max_len = 64,
            mismatch_status = 409,
            fingerprint_headers = ["X-Version"],
            on_replay = |replay| count(replay),
            echo_key,
            expiry_header = "X-Expires",
            max_request_bytes = 1024
        ),
        quote!(
            async fn f(req: Request) {}
        ),
    );
    for part in [
        "__idem_captured:::idem::__private::axum::Captured<Request,::idem::__private::axum::Tuned<{1024},true>>",
        ".http(|__idem_http|__idem_http.syntax(::idem::__private::Syntax::Strict).format(::idem::__private::Format::Uuid)\
         .max_len(64).mismatch_status(409).fingerprint_headers([\"X-Version\"])\
         .on_replay(|replay|count(replay)).expiry_header(\"X-Expires\").max_request_bytes(1024).echo_key(true))",
    ] {
        assert!(expanded.contains(part), "{part} not in {expanded}");
    }
}

#[test]
fn a_handler_without_scope_says_so() {
    let expanded = http(
        quote!(key = header, ttl = "1h"),
        quote!(
            async fn f(req: Request) {}
        ),
    );
    assert!(expanded.contains("let()=::idem::__private::SCOPE_LEFT_OUT;"), "{expanded}");
    let expanded = http(
        quote!(key = header, ttl = "1h", scope = shared),
        quote!(
            async fn f(req: Request) {}
        ),
    );
    assert!(!expanded.contains("SCOPE_LEFT_OUT") && expanded.contains(".shared()"), "{expanded}");
}

#[test]
fn what_was_imported_for_an_opaque_answer_stays_in_use() {
    let expanded = http(
        quote!(key = header, ttl = "1h", operation = "o"),
        quote!(
            async fn f<T: Clone>(t: T) -> Result<impl Answer<T> + use<T>, E>
            where
                T: Send,
            {
                Ok("x")
            }
        ),
    );
    assert!(expanded.contains("fn__idem_opaque<T:Clone>(_:implAnswer<T>)whereT:Send,{}"), "{expanded}");
}

#[test]
fn an_opaque_answer_is_looked_at_where_an_item_can_say_its_type() {
    let opaque = |function| http(quote!(key = header, ttl = "1h", operation = "o"), function);
    let expanded = opaque(quote!(
        async fn f() -> impl Answer {}
    ));
    assert!(expanded.contains("fn__idem_opaque(_:&implAnswer){}"), "{expanded}");
    let expanded = opaque(quote!(
        async fn f(self) -> impl Answer {}
    ));
    assert!(expanded.contains("#[allow(dead_code)]fn__idem_opaque(_:implAnswer){}"), "{expanded}");
}

#[test]
fn the_parts_of_a_key_are_lent_also_from_parentheses() {
    let expanded = plain(
        quote!(key = ((a.id, a.part)), ttl = "1h", scope = (a.user)),
        quote!(
            async fn f(a: A) -> R {}
        ),
    );
    assert!(expanded.contains(".key(&(&a.id,&a.part,)).scope(&a.user)"), "{expanded}");
}

#[test]
fn an_opaque_answer_is_not_pinned_and_a_result_of_one_is() {
    let expanded = http(
        quote!(key = header, ttl = "1h"),
        quote!(
            async fn f() -> impl IntoResponse {
                "x"
            }
        ),
    );
    assert!(!expanded.contains("__idem_never"), "{expanded}");
    let expanded = http(
        quote!(key = header, ttl = "1h"),
        quote!(
            async fn f() -> Result<impl IntoResponse, E> {
                Ok("x")
            }
        ),
    );
    assert!(expanded.contains("let__idem_never:Result<_,E>=loop{};"), "{expanded}");
}

#[test]
fn a_transaction_is_lent_to_the_body() {
    let options = || quote!(key = k, ttl = "1h", engine = app.idem, transaction = conn);
    let begun = "let__idem_begun=::idem::__private::transactional((&app.idem).call_at(&__IDEM_SITE));";
    let lent = "(__idem_call,move|mut__idem_tx|asyncmove{letconn=&mut*__idem_tx;";
    for (function, run) in [
        (
            quote!(
                async fn f(a: A) -> R {}
            ),
            ".transact_detached",
        ),
        (
            quote!(
                async fn f(a: &A) -> R {}
            ),
            ".transact_inline",
        ),
    ] {
        let expanded = plain(options(), function);
        assert!(expanded.contains(begun), "{expanded}");
        assert!(expanded.contains(&format!("{run}{lent}")), "{expanded}");
        assert!(!expanded.contains("global"), "{expanded}");
    }
    let expanded = http(
        options(),
        quote!(
            async fn f(a: A) -> R {}
        ),
    );
    assert!(expanded.contains(begun), "{expanded}");
    let lent = "__idem_call.transact(move|mut__idem_tx|asyncmove{letconn=&mut*__idem_tx;";
    assert!(expanded.contains(lent), "{expanded}");
}

#[test]
fn whether_a_handler_failed_is_asked_of_its_value() {
    let expanded = |output: TokenStream| {
        http(
            quote!(key = header, ttl = "1h", engine = e, transaction = tx),
            quote!(async fn f(e: E) #output {}),
        )
    };
    let (asked, kept) = ("axum::Told::of(&__idem_answer).writes();", "axum::Writes::Keep;");
    for output in [quote!(-> Answer<T>), quote!(-> Result<impl IntoResponse, E>), quote!(-> (A, B))] {
        assert!(expanded(output).contains(asked));
    }
    for output in [quote!(), quote!(-> impl IntoResponse), quote!(-> !)] {
        assert!(expanded(output).contains(kept));
    }
}

#[test]
fn all_arguments_of_a_handler_of_actix_are_captured_as_one() {
    let expanded = expansion(
        Flavour::Actix,
        quote!(key = header, ttl = "1h", scope = user.id, engine = app.idem),
        quote!(
            async fn f(app: Data<App>, Json(req): Json<T>, _: Path<u64>) -> impl Responder {
                body()
            }
        ),
    );
    for part in [
        "asyncfnf(__idem_captured:::idem::__private::actix::CapturedBriefly<(Data<App>,Json<T>,Path<u64>,)>)->::idem::__private::actix::Response{",
        "::idem::__private::actix::extracted::<Json<T>>();",
        "let((app,req,__idem_arg_2,),__idem_http,__idem_request)=__idem_captured.into_parts();letJson(req)=req;",
        "::idem::__private::actix::into_response(__idem_answer,&__idem_http)",
        "__idem_call.run_local(asyncmove{",
    ] {
        assert!(expanded.contains(part), "{part} not in {expanded}");
    }
    let nothing = expansion(
        Flavour::Actix,
        quote!(key = header, ttl = "1h", inline),
        quote!(
            async fn f() {}
        ),
    );
    assert!(nothing.contains("actix::CapturedBriefly<()>"), "{nothing}");
    assert!(nothing.contains("__idem_call.run_inline("), "{nothing}");
}

#[test]
fn a_function_with_mistakes_stays_beside_all_of_them() {
    for flavour in [Flavour::Plain, Flavour::Axum, Flavour::Actix] {
        let function = quote!(
            async fn f(a: A) -> R {
                body()
            }
        );
        let written = crate::attribute(quote!(tll = "1h"), &function, flavour).to_string();
        assert!(written.contains(&function.to_string()), "{written}");
        for mistake in ["did you mean `ttl`?", "`key` is missing", "`ttl` is missing"] {
            assert!(written.contains(mistake), "{mistake} not in {written}");
        }
        assert!(!written.contains("__private"), "{written}");
    }
}

#[test]
fn what_is_no_function_stays_beside_the_mistake() {
    let item = quote!(
        struct S;
    );
    let written = crate::attribute(quote!(key = k, ttl = "1h"), &item, Flavour::Plain).to_string();
    assert!(written.starts_with(&item.to_string()) && written.contains("compile_error"), "{written}");
}

#[test]
fn what_only_the_options_use_is_not_called_unused() {
    let expanded = plain(
        quote!(key = (msg.id, part), ttl = "1h"),
        quote!(
            async fn f(msg: Msg, part: u8, other: u8) -> R {}
        ),
    );
    for used in ["#[allow(unused_variables)]letmsg=msg;", "#[allow(unused_variables)]letpart=part;"] {
        assert!(expanded.contains(used), "{used} not in {expanded}");
    }
    assert!(!expanded.contains("#[allow(unused_variables)]letother=other;"), "{expanded}");
}

#[test]
fn the_inside_of_a_boxed_method_is_what_runs_once() {
    let expanded = plain(
        quote!(key = a.id, ttl = "1h", operation = "o"),
        quote! {
            fn f<'a, 'async_trait>(&'a self, a: A)
                -> ::core::pin::Pin<Box<dyn ::core::future::Future<Output = Result<T, E>> + 'async_trait>>
            {
                let before = 1;
                Box::pin(async move {
                    let a = a;
                    let __ret: Result<T, E> = { work(a) };
                    __ret
                })
            }
        },
    );
    let run = expanded.find(".run_inline(__idem_call,asyncmove{").expect("run inline");
    let work = expanded.find("let__ret:Result<T,E>={work(a)};__ret").expect("the body");
    assert!(expanded.contains("letbefore=1;") && run < work, "{expanded}");
}
