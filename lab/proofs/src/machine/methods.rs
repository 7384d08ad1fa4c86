use super::expression::cut;
use super::{Machine, Run};
use crate::term::Term;
use crate::value::{Kind, Scope, Value};

/// Methods: those of the sources, and those of the standard library that the sources use.
impl Machine<'_> {
    pub(super) fn run_method(&mut self, call: &syn::ExprMethodCall, scope: &mut Scope) -> Run {
        let receiver = self.run(&call.receiver, scope)?;
        let method = call.method.to_string();
        let mut args = vec![receiver];
        for arg in &call.args {
            args.push(self.run(arg, scope)?);
        }
        if let Value::Struct(of, _) = &args[0] {
            let name = format!("{of}::{method}");
            return Ok(self.call(&name, &args));
        }
        let text = || quote::ToTokens::to_token_stream(call).to_string();
        Ok(match args.remove(0) {
            Value::Atomic(atomic) => self.on_atomic(&atomic, &method, &args),
            Value::Number(term, kind) => self.on_number(term, kind, &method, &args, text),
            Value::Variant(name, parts) => self.on_variant(&name, parts, &method, &args),
            Value::Truth(truth) => {
                let yes = self.decide(truth);
                match &*method {
                    "then" if yes => Value::some(self.apply(&args[0], &[])),
                    "then_some" if yes => Value::some(args[0].clone()),
                    "then" | "then_some" => Value::none(),
                    _ => panic!("`{method}` of a truth value"),
                }
            }
            Value::Range(start, end) if method == "into_inner" => Value::Tuple(vec![*start, *end]),
            other => panic!("`{method}` of {other:?}"),
        })
    }

    /// One atomic step. The value of the atomic is that of any moment, so an exchange succeeds: if it
    /// fails, the loop around it takes the step for the value that it has seen.
    fn on_atomic(
        &mut self,
        cell: &std::cell::RefCell<Value>,
        method: &str,
        args: &[Value],
    ) -> Value {
        let before = cell.borrow().clone();
        let (now, kind) = match &before {
            Value::Number(term, kind) => (term.clone(), *kind),
            other => panic!("{other:?} in an atomic"),
        };
        let set = |term: Term| cell.replace(Value::Number(term, kind));
        match method {
            "load" => return before,
            "store" => {
                set(args[0].term());
                return Value::Unit;
            }
            "swap" => set(args[0].term()),
            "fetch_max" => set(now.max(args[0].term())),
            "fetch_min" => set(now.min(args[0].term())),
            "fetch_add" => set(cut(now.plus(args[0].term()), kind)),
            "compare_exchange_weak" | "compare_exchange" => {
                if !self.decide(now.is(args[0].term())) {
                    return Value::Variant("Err".into(), vec![before]);
                }
                set(args[1].term());
                return Value::Variant("Ok".into(), vec![before]);
            }
            "fetch_update" => {
                let changed = self.apply(&args[2], std::slice::from_ref(&before));
                let Value::Variant(name, parts) = changed else { panic!("no `Option`") };
                if name == "None" {
                    return Value::Variant("Err".into(), vec![before]);
                }
                set(parts[0].term());
                return Value::Variant("Ok".into(), vec![before]);
            }
            _ => panic!("`{method}` of an atomic"),
        };
        before
    }

    fn on_number(
        &mut self,
        term: Term,
        kind: Kind,
        method: &str,
        args: &[Value],
        text: impl Fn() -> String,
    ) -> Value {
        let most = Term::Int(kind.most());
        let arg = |at: usize| args[at].term();
        let term = match method {
            "saturating_add" => term.plus(arg(0)).min(most),
            "saturating_sub" => term.minus(arg(0)).max(Term::Int(kind.least())),
            "saturating_mul" => term.times(arg(0)).min(most),
            "wrapping_add" => cut(term.plus(arg(0)), kind),
            "checked_add" | "checked_sub" | "checked_mul" => {
                let result = match method {
                    "checked_add" => term.plus(arg(0)),
                    "checked_sub" => term.minus(arg(0)),
                    _ => term.times(arg(0)),
                };
                let fits = result.clone().within(kind.least(), kind.most());
                return if self.decide(fits) {
                    Value::some(Value::Number(result, kind))
                } else {
                    Value::none()
                };
            }
            "min" => term.min(arg(0)),
            "max" => term.max(arg(0)),
            "clamp" => {
                // The standard library panics if the ends are the wrong way round.
                let claim = arg(0).le(arg(1));
                self.claims.push(super::Claim { facts: self.facts.len(), claim, text: text() });
                term.max(arg(0)).min(arg(1))
            }
            "div_ceil" => {
                let more = arg(0).minus(Term::Int(1));
                term.plus(more).quotient(arg(0))
            }
            "unsigned_abs" => {
                let negative = term.clone().lt(Term::Int(0));
                let term = negative.choose(Term::Int(0).minus(term.clone()), term);
                return Value::u64(term);
            }
            "wrapping_neg" => {
                let above = Term::Int(kind.most()).plus(Term::Int(1));
                term.clone().is(Term::Int(0)).choose(Term::Int(0), above.minus(term))
            }
            "get" => term, // of a `NonZeroU32`
            "as_secs" => {
                return Value::u64(term.quotient(Term::Int(1_000_000_000)));
            }
            "subsec_nanos" => return Value::u32(term.remainder(Term::Int(1_000_000_000))),
            "is_zero" => return Value::Truth(term.is(Term::Int(0))),
            _ => panic!("`{method}` of a number"),
        };
        Value::Number(term, kind)
    }

    fn on_variant(
        &mut self,
        name: &str,
        mut parts: Vec<Value>,
        method: &str,
        args: &[Value],
    ) -> Value {
        let is_good = name == "Some" || name == "Ok";
        match method {
            "unwrap_or" if is_good => parts.remove(0),
            "unwrap_or" | "map_or" if !is_good => args[0].clone(),
            "is_some" | "is_ok" => Value::Truth(Term::Bool(is_good)),
            "is_none" | "is_err" => Value::Truth(Term::Bool(!is_good)),
            "map_or" => self.apply(&args[1], &parts),
            _ => panic!("`{method}` of `{name}`"),
        }
    }
}
