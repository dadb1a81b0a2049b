select cast(carrier as text) as carrier_code, cast(name as text) as carrier_name
from {{ source('flights', 'airlines') }}
