-- The newest accepted judgements by each of these rules, but none of the version itself unless asked for.
select
    wanted.subject,
    wanted.rule,
    found.version_id,
    found.verdict
from unnest(%(subjects)s::text[], %(rules)s::text[]) as wanted (subject, rule)
cross join lateral (
    select
        j.version_id,
        j.verdict,
        j.judgement_id
    from ops.judgements as j
    where
        j.pipeline = %(pipeline)s
        and j.subject = wanted.subject
        and j.rule = wanted.rule
        and j.verdict = any(%(accepted)s)
        and j.version_id is distinct from %(but)s
    order by j.judgement_id desc
    limit %(most)s
) as found
order by wanted.subject, wanted.rule, found.judgement_id desc
