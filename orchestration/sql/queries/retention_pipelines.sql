-- Every pipeline that ever ran or built in this warehouse.
select r.pipeline from ops.runs as r
union
select v.pipeline from ops.versions as v
union
select substr(l.name, length('build/') + 1) from ops.leases as l where starts_with(l.name, 'build/')
