use syn::{Pat, RangeLimits};

use super::Machine;
use crate::term::Term;
use crate::value::{Scope, Value};

/// Patterns.
impl Machine<'_> {
    /// Returns whether a value fits a pattern, and binds the names of the pattern.
    pub(super) fn fits(&mut self, pattern: &Pat, value: Value, scope: &mut Scope) -> bool {
        match pattern {
            Pat::Wild(_) | Pat::Rest(_) => true,
            Pat::Paren(paren) => self.fits(&paren.pat, value, scope),
            Pat::Reference(reference) => self.fits(&reference.pat, value, scope),
            Pat::Type(typed) => self.fits(&typed.pat, value, scope),
            Pat::Ident(ident) => {
                let name = ident.ident.to_string();
                if let Some((_, sub)) = &ident.subpat {
                    self.bind(name, value.clone(), scope);
                    return self.fits(sub, value, scope);
                }
                if name.starts_with(char::is_uppercase) {
                    let constant = self.constant(&[name]);
                    return self.is_same(&constant, &value);
                }
                self.bind(name, value, scope);
                true
            }
            Pat::Path(path) => {
                let names: Vec<String> =
                    path.path.segments.iter().map(|segment| segment.ident.to_string()).collect();
                let constant = self.constant(&names);
                self.is_same(&constant, &value)
            }
            Pat::Lit(lit) => {
                let Ok(constant) = self.run(&syn::Expr::Lit(lit.clone()), scope) else {
                    panic!("a literal has no value")
                };
                self.is_same(&constant, &value)
            }
            Pat::Or(or) => or.cases.iter().any(|case| self.fits(case, value.clone(), scope)),
            Pat::Range(range) => self.fits_range(range, &value, scope),
            Pat::Tuple(tuple) => {
                let Value::Tuple(parts) = value else { panic!("{value:?} is no tuple") };
                tuple.elems.iter().zip(parts).all(|(pattern, part)| self.fits(pattern, part, scope))
            }
            Pat::TupleStruct(tuple) => {
                let name = tuple.path.segments.last().expect("a name").ident.to_string();
                let Value::Variant(own, parts) = value else { panic!("{value:?} is no variant") };
                own == name
                    && tuple
                        .elems
                        .iter()
                        .zip(parts)
                        .all(|(pattern, part)| self.fits(pattern, part, scope))
            }
            Pat::Struct(of) => of.fields.iter().all(|field| {
                let syn::Member::Named(name) = &field.member else { panic!("a field by place") };
                let part = value.field(&name.to_string());
                self.fits(&field.pat, part, scope)
            }),
            other => panic!("a pattern of another kind: {other:?}"),
        }
    }

    fn is_same(&mut self, one: &Value, other: &Value) -> bool {
        match (one, other) {
            (Value::Variant(one, _), Value::Variant(other, _)) => one == other,
            _ => self.decide(one.term().is(other.term())),
        }
    }

    fn fits_range(&mut self, range: &syn::ExprRange, value: &Value, scope: &mut Scope) -> bool {
        let value = value.term();
        let mut end = |end: &Option<Box<syn::Expr>>| {
            end.as_ref().map(|end| {
                let end = self.run(end, scope);
                end.ok().expect("an end of a range has a value").term()
            })
        };
        let (start, end) = (end(&range.start), end(&range.end));
        let above = start.map_or(Term::Bool(true), |start| start.le(value.clone()));
        let below = end.map_or(Term::Bool(true), |end| match range.limits {
            RangeLimits::HalfOpen(_) => value.clone().lt(end),
            RangeLimits::Closed(_) => value.clone().le(end),
        });
        self.decide(above.and(below))
    }
}
